! Acoustic propagator with damping, of 8th order in space and 2nd order in time, with the equations
! of c-examples/rtm3d/propagator.c. The operations and their order are those of the C file, so the
! results are equal bit for bit.
module propagator
  use grid
  implicit none

  ! The coefficients of a velocity model: K, and w = damp1(i1) damp2(i2) damp3(i3), exactly 1
  ! outside the sponge.
  type medium_t
    type(grid_t) :: grid
    real(sp), allocatable :: scale(:, :, :), damp1(:), damp2(:), damp3(:)
  end type

  ! A state: two time levels, which are all that a step needs and all that a snapshot holds. The two
  ! arrays change places at every step.
  type wavefield_t
    real(sp), pointer, contiguous :: curr(:, :, :) => null()  ! u(t)
    real(sp), pointer, contiguous :: prev(:, :, :) => null()  ! u(t-1)
  end type

  real(dp), parameter :: pi = 3.14159265358979323846_dp
  ! Second derivative times dx^2: weights of distance 0..4 along one axis.
  real(dp), parameter :: weights(0:4) = &
    [-205.0_dp / 72.0_dp, 8.0_dp / 5.0_dp, -1.0_dp / 5.0_dp, 8.0_dp / 315.0_dp, -1.0_dp / 560.0_dp]
  ! Lines of a tile: nine planes of a tile, which the stencil needs, fit the L2 cache.
  integer, parameter :: tile = 64

contains

  ! Largest stable time step at the velocity vmax: dt v/dx <= 2/sqrt(3 sum|W|).
  real(dp) function stable_dt(dx, vmax)
    real(dp), intent(in) :: dx, vmax
    real(dp), parameter :: total = &
      205.0_dp / 72.0_dp + 2 * (8.0_dp / 5.0_dp + 1.0_dp / 5.0_dp + 8.0_dp / 315.0_dp + 1.0_dp / 560.0_dp)
    stable_dt = 2 / sqrt(total * 3) * dx / vmax
  end function

  ! Ricker wavelet of peak frequency `freq`, delayed by 1.2/freq so that it starts near zero.
  elemental real(dp) function ricker(t, freq)
    real(dp), intent(in) :: t, freq
    real(dp) :: a
    a = pi * freq * (t - 1.2_dp / freq)
    ricker = (1 - 2 * a * a) * exp(-(a * a))
  end function

  ! The damping profile r - sin(2 pi r)/(2 pi): smooth where it leaves 0 (the model, r <= 0) and
  ! where it reaches 1 (the outer edge).
  elemental real(dp) function ramp(distance)
    real(dp), intent(in) :: distance
    real(dp) :: r
    r = max(0.0_dp, min(1.0_dp, distance))
    ramp = r - sin(2 * pi * r) / (2 * pi)
  end function

  ! Mean velocity of the cells with index `at` along `axis`.
  real(dp) function face_speed(v, axis, at)
    real(sp), intent(in) :: v(:, :, :)
    integer, intent(in) :: axis, at
    integer :: i1, i2, i3, low(3), high(3)
    real(dp) :: total
    low = 1
    high = shape(v)
    low(axis) = at
    high(axis) = at
    total = 0
    do i3 = low(3), high(3)
      do i2 = low(2), high(2)
        do i1 = low(1), high(1)
          total = total + v(i1, i2, i3)
        end do
      end do
    end do
    face_speed = total * size(v, axis) / size(v)
  end function

  ! w along one axis, with d = (eta/m) dt/2 and eta/m = 1.5 ln(1000) / (border dx) v ramp.
  function damping(g, axis, dt, v) result(w)
    type(grid_t), intent(in) :: g
    integer, intent(in) :: axis
    real(dp), intent(in) :: dt
    real(sp), intent(in) :: v(:, :, :)
    real(sp), allocatable :: w(:)
    real(dp) :: unit, low, high, below, above, d
    integer :: i
    unit = 1.5_dp * log(1000.0_dp) / (g%border * g%dx) * dt / 2
    low = unit * face_speed(v, axis, 1)
    high = unit * face_speed(v, axis, g%n(axis))
    allocate (w(g%e(axis)))
    do i = 0, g%e(axis) - 1
      below = g%o - i  ! cells outside the model, either side
      above = i - (g%o + g%n(axis) - 1)
      d = low * ramp(below / g%border) + high * ramp(above / g%border)
      w(i + 1) = real((1 - d) / (1 + d), sp)
    end do
  end function

  ! Computes the coefficients of the model `v` in m/s, whose edge values continue into sponge and
  ! halo.
  function new_medium(g, dt, v) result(m)
    type(grid_t), intent(in) :: g
    real(dp), intent(in) :: dt
    real(sp), intent(in) :: v(:, :, :)
    type(medium_t) :: m
    integer :: i1, i2, i3
    real(dp) :: courant, w
    m%grid = g
    m%damp1 = damping(g, 1, dt, v)
    m%damp2 = damping(g, 2, dt, v)
    m%damp3 = damping(g, 3, dt, v)
    allocate (m%scale(g%e(1), g%e(2), g%e(3)))
    !$omp parallel do schedule(static) collapse(2) private(i1, courant, w)
    do i3 = 1, g%e(3)
      do i2 = 1, g%e(2)
        do i1 = 1, g%e(1)
          courant = v(cell_at(i1, 1), cell_at(i2, 2), cell_at(i3, 3)) * dt / g%dx
          w = real(m%damp1(i1), dp) * m%damp2(i2) * m%damp3(i3)
          m%scale(i1, i2, i3) = real(courant * courant * (1 + w) / 2, sp)
        end do
      end do
    end do
  contains
    ! The cell of the model nearest to array position i.
    pure integer function cell_at(i, axis)
      integer, intent(in) :: i, axis
      cell_at = max(1, min(g%n(axis), i - g%o))
    end function
  end function

  ! Allocates both time levels at rest. Each thread first touches the planes that it will compute.
  subroutine new_wavefield(w, g)
    type(wavefield_t), intent(out) :: w
    type(grid_t), intent(in) :: g
    allocate (w%curr(g%e(1), g%e(2), g%e(3)), w%prev(g%e(1), g%e(2), g%e(3)))
    call rest(w)
  end subroutine

  subroutine rest(w)
    type(wavefield_t), intent(inout) :: w
    integer :: i3
    !$omp parallel do schedule(static)
    do i3 = 1, size(w%curr, 3)
      w%curr(:, :, i3) = 0
      w%prev(:, :, i3) = 0
    end do
  end subroutine

  ! Sets the halo to zero, after a lossy snapshot was retrieved into the array, or in memory that was
  ! handed out.
  subroutine clear_halo(u)
    real(sp), intent(inout) :: u(:, :, :)
    integer :: i3, n(3)
    n = shape(u)
    !$omp parallel do schedule(static)
    do i3 = 1, n(3)
      if (i3 <= halo .or. i3 > n(3) - halo) u(:, :, i3) = 0
      u(:, :halo, i3) = 0
      u(:, n(2) - halo + 1:, i3) = 0
      u(:halo, :, i3) = 0
      u(n(1) - halo + 1:, :, i3) = 0
    end do
  end subroutine

  ! One time step without sources: (u(t), u(t-1)) becomes (u(t+1), u(t)). u(t+1) overwrites u(t-1); if
  ! there is `to`, another array whose halo is zero, u(t+1) goes there, and u(t-1) keeps its values.
  subroutine propagate(m, w, to)
    type(medium_t), intent(in) :: m
    type(wavefield_t), intent(inout) :: w
    real(sp), pointer, contiguous, intent(in), optional :: to(:, :, :)
    real(sp), pointer, contiguous :: next(:, :, :)
    next => w%prev
    if (present(to)) next => to
    if (present(to)) then
      call step(m%grid%e(1), m%grid%e(2), m%grid%e(3), w%curr, next, m%scale, m%damp1, m%damp2, m%damp3, w%prev)
    else
      call step(m%grid%e(1), m%grid%e(2), m%grid%e(3), w%curr, next, m%scale, m%damp1, m%damp2, m%damp3)
    end if
    w%prev => w%curr
    w%curr => next
  end subroutine

  ! p holds u(t-1) and receives u(t+1); if there is `before`, that array holds u(t-1). Every point is computed by one expression, whatever the
  ! thread, so the results do not depend on the number of threads.
  subroutine step(e1, e2, e3, u, p, scale, damp1, damp2, damp3, before)
    integer, intent(in) :: e1, e2, e3
    real(sp), intent(in) :: u(e1, e2, e3), scale(e1, e2, e3), damp1(e1), damp2(e2), damp3(e3)
    real(sp), intent(inout) :: p(e1, e2, e3)
    real(sp), intent(in), optional :: before(e1, e2, e3)
    real(sp), parameter :: w0 = real(weights(0), sp), w1 = real(weights(1), sp), w2 = real(weights(2), sp), &
                           w3 = real(weights(3), sp), w4 = real(weights(4), sp)
    integer :: i, j, k, t
    real(sp) :: lap, damp23
    !$omp parallel private(i, j, k, t, lap, damp23)
    do t = halo + 1, e2 - halo, tile
      !$omp do schedule(static)
      do k = halo + 1, e3 - halo
        do j = t, min(t + tile - 1, e2 - halo)
          damp23 = damp2(j) * damp3(k)
          if (present(before)) p(halo + 1:e1 - halo, j, k) = before(halo + 1:e1 - halo, j, k)  ! stays in the cache
          !$omp simd private(lap)
          do i = halo + 1, e1 - halo
            lap = 3 * w0 * u(i, j, k) &
                  + w1 * (((u(i-1, j, k) + u(i+1, j, k)) + (u(i, j-1, k) + u(i, j+1, k))) + (u(i, j, k-1) + u(i, j, k+1))) &
                  + w2 * (((u(i-2, j, k) + u(i+2, j, k)) + (u(i, j-2, k) + u(i, j+2, k))) + (u(i, j, k-2) + u(i, j, k+2))) &
                  + w3 * (((u(i-3, j, k) + u(i+3, j, k)) + (u(i, j-3, k) + u(i, j+3, k))) + (u(i, j, k-3) + u(i, j, k+3))) &
                  + w4 * (((u(i-4, j, k) + u(i+4, j, k)) + (u(i, j-4, k) + u(i, j+4, k))) + (u(i, j, k-4) + u(i, j, k+4)))
            p(i, j, k) = u(i, j, k) + damp23 * damp1(i) * (u(i, j, k) - p(i, j, k)) + scale(i, j, k) * lap
          end do
        end do
      end do
      !$omp end do nowait
    end do
    !$omp end parallel
  end subroutine

  ! Adds the source at the point `at` to w%curr, which a step has just computed; `s` is in units of
  ! 1/dx^2.
  subroutine inject(m, w, at, s)
    type(medium_t), intent(in) :: m
    type(wavefield_t), intent(inout) :: w
    integer, intent(in) :: at(3)
    real(sp), intent(in) :: s
    w%curr(at(1), at(2), at(3)) = w%curr(at(1), at(2), at(3)) + m%scale(at(1), at(2), at(3)) * s
  end subroutine
end module
