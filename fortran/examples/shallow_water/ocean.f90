! Shallow water on an Arakawa C grid: the vector-invariant equations in the enstrophy-conserving form of
! Sadourny (1975), on a beta plane, with quadratic bottom drag, variable depth and closed coasts,
!   d eta/dt = -div(h u),   du/dt = q k x (h u) - grad(g eta + |u|^2 / 2) - c |u| u / h,
! where h = depth + eta and q = (f + vorticity) / h. A time step is the third-order Runge-Kutta scheme of
! Shu and Osher (1988). The ranks divide the rows of the grid.
!
! Cell (i, j) has eta(i, j) at its centre, u(i, j) on its western and v(i, j) on its southern face; q(i, j)
! is at its south-western corner. The arrays of a rank have two rows of each neighbour and one column of
! land on each side. Every value is computed by the same operations on any number of ranks, also in the
! adjoint, where each cell gathers from its neighbours: so the bits do not depend on the number of ranks.
module ocean
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  implicit none

  integer, parameter :: dp = kind(1d0)
  real(dp), parameter :: gravity = 9.81_dp        ! m/s2
  real(dp), parameter :: friction = 2.5e-3_dp     ! drag coefficient c, dimensionless
  real(dp), parameter :: residual = 0.01_dp       ! speed that drag sees in water at rest, m/s
  real(dp), parameter :: coriolis = 1.2e-4_dp     ! f at the southern coast, 1/s
  real(dp), parameter :: beta = 1.3e-11_dp        ! its change to the north, 1/(m s)
  real(dp), parameter :: shallowest = 40          ! depth at the coasts, m
  ! Stage k of a time step from x is old(k) x + (1 - old(k)) (y + dt F(y)), where y is the stage before.
  real(dp), parameter :: old(3) = [0.0_dp, 3 / 4.0_dp, 1 / 3.0_dp]

  type(MPI_Comm), target, protected :: world
  integer, protected :: rank, ranks
  integer, protected :: nx, ny, south, north, first, last  ! rows of this rank, without and with its halo
  real(dp), protected :: dx, dt                            ! m, s
  real(dp), allocatable :: depth(:, :)                     ! m
  real(dp), allocatable, protected :: wet(:, :), open_u(:, :), open_v(:, :)  ! 1 or 0
  real(dp), allocatable, private, dimension(:, :) :: h, hx, hy, uh, vh, q    ! see diagnose

contains

  ! Makes a basin of nx by ny cells of dx metres, with an island.
  subroutine new_ocean(cells_x, cells_y, spacing)
    integer, intent(in) :: cells_x, cells_y
    real(dp), intent(in) :: spacing
    integer :: i, j
    nx = cells_x
    ny = cells_y
    dx = spacing
    world = MPI_COMM_WORLD
    call MPI_Comm_rank(world, rank)
    call MPI_Comm_size(world, ranks)
    if (min(nx, ny) < 20 .or. dx <= 0 .or. ny < 2 * ranks) &
      call fail('shallow_water: wants nx and ny >= 20, dx > 0, and at least two rows for each rank')
    south = ny * rank / ranks + 1
    north = ny * (rank + 1) / ranks
    first = south - 2
    last = north + 2
    allocate (depth(0:nx + 1, first:last), source=shallowest)
    allocate (wet, open_u, open_v, h, hx, hy, uh, vh, q, mold=depth)
    wet = 0
    open_u = 0
    open_v = 0
    uh = 0
    vh = 0
    do j = max(first, 1), min(last, ny)
      do i = 1, nx
        if (bump(i, j, 0.62_dp, 0.6_dp, 1.0_dp) > 0.6_dp) cycle  ! the island
        wet(i, j) = 1
        depth(i, j) = shallowest + 60 * sin(3.14159265_dp * x_of(i)) * (1 - y_of(j)) &
          + 90 * bump(i, j, 0.4_dp, 0.3_dp, 2.0_dp)
      end do
    end do
    open_u(1:, :) = wet(0:nx, :) * wet(1:, :)
    open_v(:, first + 1:) = wet(:, first:last - 1) * wet(:, first + 1:)
    dt = 0.35_dp * dx / sqrt(gravity * 200)  ! no water is deeper than 190 m
  end subroutine

  ! The place of a cell's centre, as a part of the width and of the height of the basin.
  real(dp) function x_of(i)
    integer, intent(in) :: i
    x_of = (i - 0.5_dp) / nx
  end function

  real(dp) function y_of(j)
    integer, intent(in) :: j
    y_of = (j - 0.5_dp) / ny
  end function

  ! A Gaussian of height 1 around a place; `width` in tenths of the basin's height.
  real(dp) function bump(i, j, x, y, width)
    integer, intent(in) :: i, j
    real(dp), intent(in) :: x, y, width
    bump = exp(-(((x_of(i) - x) * nx / ny)**2 + (y_of(j) - y)**2) / (0.1_dp * width)**2)
  end function

  ! Ends all ranks.
  subroutine fail(reason)
    character(*), intent(in) :: reason
    write (error_unit, '(a)') trim(reason)
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 2)
  end subroutine

  ! Three fields without water motion.
  subroutine new_fields(x)
    real(dp), allocatable, intent(out) :: x(:, :, :)
    allocate (x(0:nx + 1, first:last, 3), source=0.0_dp)
  end subroutine

  ! Sets land and closed faces of a state to zero, which they have in every state of the model.
  subroutine clear_land(x)
    real(dp), intent(inout) :: x(0:, first:, :)
    x(:, :, 1) = wet * x(:, :, 1)
    x(:, :, 2) = open_u * x(:, :, 2)
    x(:, :, 3) = open_v * x(:, :, 3)
  end subroutine

  ! Halo exchange: fills the two rows of each neighbour. Where there is none, `rows` stays what it is: land.
  subroutine exchange(x)
    real(dp), intent(inout) :: x(0:, first:, :)
    real(dp), dimension(0:nx + 1, 2, 3) :: own, rows
    integer :: below, above, n
    below = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    above = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    n = size(own)
    own = x(:, south:south + 1, :)
    rows = x(:, north + 1:last, :)
    call MPI_Sendrecv(own, n, MPI_DOUBLE_PRECISION, below, 0, rows, n, MPI_DOUBLE_PRECISION, above, 0, world, MPI_STATUS_IGNORE)
    x(:, north + 1:last, :) = rows
    own = x(:, north - 1:north, :)
    rows = x(:, first:south - 1, :)
    call MPI_Sendrecv(own, n, MPI_DOUBLE_PRECISION, above, 1, rows, n, MPI_DOUBLE_PRECISION, below, 1, world, MPI_STATUS_IGNORE)
    x(:, first:south - 1, :) = rows
  end subroutine

  ! One time step of the state x = (eta, u, v). `stages` become the states at which F is evaluated.
  subroutine step(x, stages)
    real(dp), intent(inout) :: x(0:, first:, :)
    real(dp), intent(out), optional :: stages(0:, first:, :, :)
    real(dp) :: y(0:nx + 1, first:last, 3), rate(0:nx + 1, first:last, 3)
    integer :: k
    y = x
    do k = 1, 3
      call exchange(y)
      if (present(stages)) stages(:, :, :, k) = y
      call tendency(y(:, :, 1), y(:, :, 2), y(:, :, 3), rate)
      y = old(k) * x + (1 - old(k)) * (y + dt * rate)
    end do
    x = y
  end subroutine

  ! The derivative of the time step with these `stages`, for changes d of the state and d_depth of the depth.
  subroutine step_tangent(stages, d, d_depth)
    real(dp), intent(in) :: stages(0:, first:, :, :), d_depth(0:, first:)
    real(dp), intent(inout) :: d(0:, first:, :)
    real(dp) :: y(0:nx + 1, first:last, 3), rate(0:nx + 1, first:last, 3)
    integer :: k
    y = d
    do k = 1, 3
      call exchange(y)
      call tangent(stages(:, :, 1, k), stages(:, :, 2, k), stages(:, :, 3, k), &
                   y(:, :, 1), y(:, :, 2), y(:, :, 3), d_depth, rate)
      y = old(k) * d + (1 - old(k)) * (y + dt * rate)
    end do
    d = y
  end subroutine

  ! The adjoint of the time step with these `stages`: lambda becomes the adjoint state before the step, and
  ! the part of the step is added to the gradient with respect to the depth.
  subroutine step_adjoint(stages, lambda, depth_gradient)
    real(dp), intent(in) :: stages(0:, first:, :, :)
    real(dp), intent(inout) :: lambda(0:, first:, :), depth_gradient(0:, first:)
    real(dp) :: y(0:nx + 1, first:last, 3), rate(0:nx + 1, first:last, 3), sum(0:nx + 1, first:last, 3)
    integer :: k
    sum = 0
    do k = 3, 1, -1
      sum = sum + old(k) * lambda
      y = (1 - old(k)) * lambda
      call exchange(y)
      call adjoint(stages(:, :, 1, k), stages(:, :, 2, k), stages(:, :, 3, k), &
                   y(:, :, 1), y(:, :, 2), y(:, :, 3), rate, depth_gradient)
      lambda = y + dt * rate
    end do
    lambda = lambda + sum
  end subroutine

  ! Computes thickness h, its means hx and hy on the faces, transports uh and vh, and potential vorticity q.
  subroutine diagnose(eta, u, v)
    real(dp), dimension(0:nx + 1, first:last), intent(in) :: eta, u, v
    integer :: i, j
    h = depth + eta
    do j = first, last
      do i = 1, nx + 1
        hx(i, j) = (h(i - 1, j) + h(i, j)) / 2
        uh(i, j) = hx(i, j) * u(i, j)
      end do
    end do
    do j = first + 1, last
      do i = 1, nx + 1
        hy(i, j) = (h(i, j - 1) + h(i, j)) / 2
        vh(i, j) = hy(i, j) * v(i, j)
        q(i, j) = (coriolis + beta * dx * (j - 1) + (v(i, j) - v(i - 1, j) - u(i, j) + u(i, j - 1)) / dx) &
          / ((hx(i, j - 1) + hx(i, j)) / 2)
      end do
    end do
  end subroutine

  ! Sums over the four v faces around face u(i, j), and over the four u faces around face v(i, j).
  pure real(dp) function around_u(v, i, j)
    real(dp), intent(in) :: v(0:nx + 1, first:last)
    integer, intent(in) :: i, j
    around_u = (v(i - 1, j) + v(i, j)) + (v(i - 1, j + 1) + v(i, j + 1))
  end function

  pure real(dp) function around_v(u, i, j)
    real(dp), intent(in) :: u(0:nx + 1, first:last)
    integer, intent(in) :: i, j
    around_v = (u(i, j - 1) + u(i + 1, j - 1)) + (u(i, j) + u(i + 1, j))
  end function

  ! Drag at a face with the velocities `own` across and `other` along the face, and the thickness there.
  pure real(dp) function drag(own, other, thickness)
    real(dp), intent(in) :: own, other, thickness
    drag = friction * sqrt(own**2 + other**2 + residual**2) * own / thickness
  end function

  ! The derivatives of `drag` with respect to its three arguments.
  pure function drag_slopes(own, other, thickness) result(slopes)
    real(dp), intent(in) :: own, other, thickness
    real(dp) :: slopes(3), speed
    speed = sqrt(own**2 + other**2 + residual**2)
    slopes = friction / thickness * [speed + own**2 / speed, own * other / speed, -speed * own / thickness]
  end function

  ! The rates of change F of a state.
  subroutine tendency(eta, u, v, rate)
    real(dp), dimension(0:nx + 1, first:last), intent(in) :: eta, u, v
    real(dp), intent(out) :: rate(0:nx + 1, first:last, 3)
    real(dp) :: energy(0:nx, south - 1:north)
    integer :: i, j
    call diagnose(eta, u, v)
    do j = south - 1, north
      do i = 0, nx
        energy(i, j) = gravity * eta(i, j) + (u(i, j)**2 + u(i + 1, j)**2 + v(i, j)**2 + v(i, j + 1)**2) / 4
      end do
    end do
    rate = 0
    do j = south, north
      do i = 1, nx
        rate(i, j, 1) = -(uh(i + 1, j) - uh(i, j) + vh(i, j + 1) - vh(i, j)) / dx
        rate(i, j, 2) = open_u(i, j) * ((q(i, j) + q(i, j + 1)) * around_u(vh, i, j) / 8 &
          - (energy(i, j) - energy(i - 1, j)) / dx - drag(u(i, j), around_u(v, i, j) / 4, hx(i, j)))
        rate(i, j, 3) = open_v(i, j) * (-(q(i, j) + q(i + 1, j)) * around_v(uh, i, j) / 8 &
          - (energy(i, j) - energy(i, j - 1)) / dx - drag(v(i, j), around_v(u, i, j) / 4, hy(i, j)))
      end do
    end do
  end subroutine

  ! The derivative of `tendency`: d_eta, d_u, d_v and d_depth are changes of the state and the depth.
  subroutine tangent(eta, u, v, d_eta, d_u, d_v, d_depth, rate)
    real(dp), dimension(0:nx + 1, first:last), intent(in) :: eta, u, v, d_eta, d_u, d_v, d_depth
    real(dp), intent(out) :: rate(0:nx + 1, first:last, 3)
    real(dp), dimension(0:nx + 1, first:last) :: d_h, d_hx, d_hy, d_uh, d_vh, d_q, d_energy
    real(dp) :: slopes(3)
    integer :: i, j
    call diagnose(eta, u, v)
    d_h = d_depth + d_eta
    d_vh = 0
    do j = first, last
      do i = 1, nx + 1
        d_hx(i, j) = (d_h(i - 1, j) + d_h(i, j)) / 2
        d_uh(i, j) = d_hx(i, j) * u(i, j) + hx(i, j) * d_u(i, j)
      end do
    end do
    do j = first + 1, last
      do i = 1, nx + 1
        d_hy(i, j) = (d_h(i, j - 1) + d_h(i, j)) / 2
        d_vh(i, j) = d_hy(i, j) * v(i, j) + hy(i, j) * d_v(i, j)
        d_q(i, j) = ((d_v(i, j) - d_v(i - 1, j) - d_u(i, j) + d_u(i, j - 1)) / dx &
          - q(i, j) * (d_hx(i, j - 1) + d_hx(i, j)) / 2) / ((hx(i, j - 1) + hx(i, j)) / 2)
      end do
    end do
    do j = south - 1, north
      do i = 0, nx
        d_energy(i, j) = gravity * d_eta(i, j) + (u(i, j) * d_u(i, j) + u(i + 1, j) * d_u(i + 1, j) &
          + v(i, j) * d_v(i, j) + v(i, j + 1) * d_v(i, j + 1)) / 2
      end do
    end do
    rate = 0
    do j = south, north
      do i = 1, nx
        rate(i, j, 1) = -(d_uh(i + 1, j) - d_uh(i, j) + d_vh(i, j + 1) - d_vh(i, j)) / dx
        slopes = drag_slopes(u(i, j), around_u(v, i, j) / 4, hx(i, j))
        rate(i, j, 2) = open_u(i, j) * ((d_q(i, j) + d_q(i, j + 1)) * around_u(vh, i, j) / 8 &
          + (q(i, j) + q(i, j + 1)) * around_u(d_vh, i, j) / 8 - (d_energy(i, j) - d_energy(i - 1, j)) / dx &
          - slopes(1) * d_u(i, j) - slopes(2) * around_u(d_v, i, j) / 4 - slopes(3) * d_hx(i, j))
        slopes = drag_slopes(v(i, j), around_v(u, i, j) / 4, hy(i, j))
        rate(i, j, 3) = open_v(i, j) * (-(d_q(i, j) + d_q(i + 1, j)) * around_v(uh, i, j) / 8 &
          - (q(i, j) + q(i + 1, j)) * around_v(d_uh, i, j) / 8 - (d_energy(i, j) - d_energy(i, j - 1)) / dx &
          - slopes(1) * d_v(i, j) - slopes(2) * around_v(d_u, i, j) / 4 - slopes(3) * d_hy(i, j))
      end do
    end do
  end subroutine

  ! The adjoint of `tangent`. l_eta, l_u and l_v are adjoints of the rates, with their halos; `rate` becomes the
  ! adjoint of the state, and dt times the adjoint of the depth is added to `depth_gradient`. Names that
  ! begin with b_ are adjoints of the variable that follows.
  subroutine adjoint(eta, u, v, l_eta, l_u, l_v, rate, depth_gradient)
    real(dp), dimension(0:nx + 1, first:last), intent(in) :: eta, u, v, l_eta, l_u, l_v
    real(dp), intent(out) :: rate(0:nx + 1, first:last, 3)
    real(dp), intent(inout) :: depth_gradient(0:nx + 1, first:last)
    ! On u faces and on v faces: adjoints of the rates, and what these rates give to the q beside the face, to
    ! the transports around it, and through drag to its own velocity, to those around it, and to hx or hy.
    real(dp), dimension(0:nx + 1, first:last) :: lu, q_u, vh_u, own_u, v_u, b_hx, lv, q_v, uh_v, own_v, u_v, b_hy
    real(dp), dimension(0:nx + 1, first:last) :: b_uh, b_vh, b_vorticity, b_energy
    real(dp) :: slopes(3), b_h
    integer :: i, j
    call diagnose(eta, u, v)
    lu = open_u * l_u
    lv = open_v * l_v
    q_v(0, :) = 0 ! land
    uh_v(0, :) = 0
    u_v(0, :) = 0
    q_u(nx + 1, :) = 0
    vh_u(nx + 1, :) = 0
    v_u(nx + 1, :) = 0
    b_hx(nx + 1, :) = 0
    q_v(nx + 1, :) = 0
    uh_v(nx + 1, :) = 0
    do j = south - 1, north + 1
      do i = 1, nx
        q_u(i, j) = lu(i, j) * around_u(vh, i, j) / 8
        vh_u(i, j) = lu(i, j) * (q(i, j) + q(i, j + 1)) / 8
        slopes = drag_slopes(u(i, j), around_u(v, i, j) / 4, hx(i, j))
        own_u(i, j) = -lu(i, j) * slopes(1)
        v_u(i, j) = -lu(i, j) * slopes(2) / 4
        b_hx(i, j) = -lu(i, j) * slopes(3)
        q_v(i, j) = -lv(i, j) * around_v(uh, i, j) / 8
        uh_v(i, j) = -lv(i, j) * (q(i, j) + q(i + 1, j)) / 8
        slopes = drag_slopes(v(i, j), around_v(u, i, j) / 4, hy(i, j))
        own_v(i, j) = -lv(i, j) * slopes(1)
        u_v(i, j) = -lv(i, j) * slopes(2) / 4
        b_hy(i, j) = -lv(i, j) * slopes(3)
      end do
    end do
    do j = south - 1, north
      do i = 0, nx
        b_energy(i, j) = (lu(i + 1, j) - lu(i, j) + lv(i, j + 1) - lv(i, j)) / dx
      end do
    end do
    do j = south, north + 1
      do i = 1, nx + 1
        b_vorticity(i, j) = (q_u(i, j) + q_u(i, j - 1) + q_v(i, j) + q_v(i - 1, j)) &
          / ((hx(i, j - 1) + hx(i, j)) / 2)
      end do
      do i = 1, nx
        b_vh(i, j) = (l_eta(i, j) - l_eta(i, j - 1)) / dx + around_v(vh_u, i, j)
        b_hy(i, j) = b_hy(i, j) + b_vh(i, j) * v(i, j)
      end do
    end do
    do j = south, north
      do i = 1, nx + 1
        b_uh(i, j) = (l_eta(i, j) - l_eta(i - 1, j)) / dx + around_u(uh_v, i, j)
        b_hx(i, j) = b_hx(i, j) + b_uh(i, j) * u(i, j) &
          - (b_vorticity(i, j) * q(i, j) + b_vorticity(i, j + 1) * q(i, j + 1)) / 2
      end do
    end do
    rate = 0
    do j = south, north
      do i = 1, nx
        b_h = (b_hx(i, j) + b_hx(i + 1, j) + b_hy(i, j) + b_hy(i, j + 1)) / 2
        depth_gradient(i, j) = depth_gradient(i, j) + dt * b_h
        rate(i, j, 1) = gravity * b_energy(i, j) + b_h
        rate(i, j, 2) = b_uh(i, j) * hx(i, j) + u(i, j) * (b_energy(i - 1, j) + b_energy(i, j)) / 2 &
          + (b_vorticity(i, j + 1) - b_vorticity(i, j)) / dx + own_u(i, j) + around_u(u_v, i, j)
        rate(i, j, 3) = b_vh(i, j) * hy(i, j) + v(i, j) * (b_energy(i, j - 1) + b_energy(i, j)) / 2 &
          + (b_vorticity(i, j) - b_vorticity(i + 1, j)) / dx + own_v(i, j) + around_v(v_u, i, j)
      end do
    end do
  end subroutine
end module
