! The inversion: sea surface heights at tide gauges, their misfit
!   J = dt/2 sum over gauges and time steps of (eta - observed)^2,
! and its gradient with respect to the initial sea surface height and to the depth.
module inversion
  use ocean
  implicit none

  ! The gauges, as parts of the width and of the height of the basin.
  real(dp), parameter :: places(2, 6) = reshape([0.1_dp, 0.2_dp, 0.9_dp, 0.15_dp, 0.95_dp, 0.8_dp, 0.5_dp, 0.95_dp, &
                                                 0.05_dp, 0.9_dp, 0.62_dp, 0.4_dp], [2, 6])
  integer, parameter :: gauges = size(places, 2)
  integer :: cell(2, gauges)
  logical :: mine(gauges)                   ! whether the gauge is in a row of this rank
  integer :: steps
  real(dp), allocatable :: observed(:, :)   ! m; by time step and gauge, of the gauges of this rank
  ! The state; its adjoint, which becomes the gradient with respect to the initial state; the gradient with
  ! respect to the depth; and the misfit of each gauge of this rank.
  real(dp), allocatable, target :: x(:, :, :), lambda(:, :, :), depth_gradient(:, :)
  real(dp), target :: misfit(gauges)
  real(dp), allocatable, private :: stages(:, :, :, :)

contains

  ! Places the gauges, and makes the observations with the true initial sea surface.
  subroutine new_inversion(time_steps)
    integer, intent(in) :: time_steps
    steps = time_steps
    cell = max(1, nint(places * spread([nx, ny], 2, gauges)))
    mine = cell(2, :) >= south .and. cell(2, :) <= north
    call new_fields(x)
    call new_fields(lambda)
    allocate (depth_gradient(0:nx + 1, first:last), stages(0:nx + 1, first:last, 3, 3), observed(steps, gauges))
    call initial(x, 0.3_dp, 0.5_dp, 1.0_dp)
    call record(observed)
  end subroutine

  ! Sets a state at rest whose surface is raised by `height` metres around a place.
  subroutine initial(x, at_x, at_y, height)
    real(dp), intent(out) :: x(0:, first:, :)
    real(dp), intent(in) :: at_x, at_y, height
    integer :: i, j
    x = 0
    do j = south, north
      do i = 1, nx
        x(i, j, 1) = wet(i, j) * height * bump(i, j, at_x, at_y, 1.5_dp)
      end do
    end do
  end subroutine

  ! The state and the sums before the first time step: the first guess of the initial sea surface.
  subroutine begin
    call initial(x, 0.35_dp, 0.45_dp, 0.7_dp)
    lambda = 0
    depth_gradient = 0
    misfit = 0
  end subroutine

  ! Runs forward from the state x, and records the sea surface heights at the gauges of this rank. With d and
  ! d_depth, the change of state and depth, the heights' derivative is recorded, too.
  subroutine record(heights, d, d_depth, d_heights)
    real(dp), intent(out) :: heights(:, :)
    real(dp), intent(inout), optional :: d(0:, first:, :)
    real(dp), intent(in), optional :: d_depth(:, :)
    real(dp), intent(out), optional :: d_heights(:, :)
    integer :: ts, g
    heights = 0
    if (present(d)) d_heights = 0
    do ts = 1, steps
      call step(x, stages)
      if (present(d)) call step_tangent(stages, d, d_depth)
      do g = 1, gauges
        if (.not. mine(g)) cycle
        heights(ts, g) = x(cell(1, g), cell(2, g), 1)
        if (present(d)) d_heights(ts, g) = d(cell(1, g), cell(2, g), 1)
      end do
    end do
  end subroutine

  ! The adjoint of the step from state ts, which is x, to ts + 1, where the heights are compared. x is lost.
  subroutine backward(ts)
    integer, intent(in) :: ts
    real(dp) :: difference
    integer :: g
    call step(x, stages)
    do g = 1, gauges
      if (.not. mine(g)) cycle
      difference = x(cell(1, g), cell(2, g), 1) - observed(ts + 1, g)
      misfit(g) = misfit(g) + dt * difference**2 / 2
      lambda(cell(1, g), cell(2, g), 1) = lambda(cell(1, g), cell(2, g), 1) + dt * difference
    end do
    call step_adjoint(stages, lambda, depth_gradient)
  end subroutine

  ! The reversal that keeps every state.
  subroutine reverse_kept
    real(dp), allocatable :: kept(:, :, :, :)
    integer :: ts
    allocate (kept(0:nx + 1, first:last, 3, 0:steps - 1))
    call begin
    do ts = 0, steps - 1
      kept(:, :, :, ts) = x
      call step(x)
    end do
    do ts = steps - 1, 0, -1
      x = kept(:, :, :, ts)
      call backward(ts)
    end do
  end subroutine

  ! The sum over all gauges; `values` are zero for the gauges of other ranks. Each sum over ranks has one term
  ! that is not zero, and so the same bits in every order.
  real(dp) function over_gauges(values)
    real(dp), intent(in) :: values(gauges)
    real(dp) :: all(gauges)
    integer :: g
    call MPI_Allreduce(values, all, gauges, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    over_gauges = 0
    do g = 1, gauges
      over_gauges = over_gauges + all(g)
    end do
  end function

  ! The rows of all ranks on rank 0; land is 0.
  subroutine gather(field, whole)
    real(dp), intent(in) :: field(0:, first:)
    real(dp), intent(out) :: whole(:, :)
    integer :: r, counts(ranks), starts(ranks)
    starts = [(nx * (ny * r / ranks), r=0, ranks - 1)]
    counts = [(nx * (ny * (r + 1) / ranks), r=0, ranks - 1)] - starts
    call MPI_Gatherv(wet(1:nx, south:north) * field(1:nx, south:north), nx * (north - south + 1), MPI_DOUBLE_PRECISION, &
                     whole, counts, starts, MPI_DOUBLE_PRECISION, 0, world)
  end subroutine
end module
