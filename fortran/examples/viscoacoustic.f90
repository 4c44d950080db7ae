! viscoacoustic [job.nml]: the gradient of waveform inversion in an absorbing medium, in which the
! wavefield cannot be recomputed backwards in time. A state is six FP64 fields of four shapes. The
! program checks its gradient and stops if it is wrong: by the dot-product test against linearised
! modelling, to rounding, and by comparing it bit for bit with the gradient computed with every
! state kept.
!
! Equations (Robertsson, Blanch and Symes 1994): particle velocity v and pressure p on a staggered
! grid with rigid walls, with two relaxation mechanisms l = 1, 2:
!
!     rho v_t = -grad p
!     p_t = -kappa (1 + tau_1 + tau_2) div v - r_1 - r_2 + s
!     r_l,t = -(r_l + kappa tau_l div v) / sigma_l
!
! A time step, with the differences G of grad and D = -G' of div, and the new strain rate e times
! dx; k = kappa / dx:
!
!     v+ = v - c G p
!     e  = D v+
!     r+ = a r - b k e
!     p+ = p - m k e - h (r_1 + r_1+ + r_2 + r_2+) + dt s
module viscoacoustic_waves
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none

  type medium_t
    real(dp) :: c, m, h, a(2), b(2)
    real(dp), allocatable :: k(:, :, :)
  end type

  ! v_i lies between two cells that are neighbours along axis i, so v_i has one value less along
  ! axis i.
  type state_t
    real(dp), allocatable :: v1(:, :, :), v2(:, :, :), v3(:, :, :), p(:, :, :), r1(:, :, :), r2(:, :, :)
  end type

contains

  ! Computes the coefficients from `tau` and `sigma` of both mechanisms; the caller sets k.
  function new_medium(dt, dx, rho, tau, sigma) result(m)
    real(dp), intent(in) :: dt, dx, rho, tau(2), sigma(2)
    type(medium_t) :: m
    m%c = dt / (rho * dx)
    m%m = dt * (1 + sum(tau))
    m%h = dt / 2
    m%a = (1 - m%h / sigma) / (1 + m%h / sigma)
    m%b = dt * tau / sigma / (1 + m%h / sigma)
  end function

  subroutine rest(x, n)
    type(state_t), intent(inout) :: x
    integer, intent(in) :: n(3)
    if (.not. allocated(x%p)) then
      allocate (x%v1(n(1) - 1, n(2), n(3)), x%v2(n(1), n(2) - 1, n(3)), x%v3(n(1), n(2), n(3) - 1))
      allocate (x%p(n(1), n(2), n(3)), x%r1(n(1), n(2), n(3)), x%r2(n(1), n(2), n(3)))
    end if
    x%v1 = 0
    x%v2 = 0
    x%v3 = 0
    x%p = 0
    x%r1 = 0
    x%r2 = 0
  end subroutine

  ! v = v + factor G p
  subroutine add_gradient(factor, p, v1, v2, v3)
    real(dp), intent(in) :: factor, p(:, :, :)
    real(dp), intent(inout) :: v1(:, :, :), v2(:, :, :), v3(:, :, :)
    integer :: k, n(3)
    n = shape(p)
    !$omp parallel do schedule(static)
    do k = 1, n(3)
      v1(:, :, k) = v1(:, :, k) + factor * (p(2:, :, k) - p(:n(1) - 1, :, k))
      v2(:, :, k) = v2(:, :, k) + factor * (p(:, 2:, k) - p(:, :n(2) - 1, k))
      if (k < n(3)) v3(:, :, k) = v3(:, :, k) + factor * (p(:, :, k + 1) - p(:, :, k))
    end do
  end subroutine

  ! e = D v
  subroutine divergence(v1, v2, v3, e)
    real(dp), intent(in) :: v1(:, :, :), v2(:, :, :), v3(:, :, :)
    real(dp), intent(out) :: e(:, :, :)
    integer :: k, n(3)
    n = shape(e)
    !$omp parallel do schedule(static)
    do k = 1, n(3)
      e(:, :, k) = 0
      e(:n(1) - 1, :, k) = v1(:, :, k)
      e(2:, :, k) = e(2:, :, k) - v1(:, :, k)
      e(:, :n(2) - 1, k) = e(:, :n(2) - 1, k) + v2(:, :, k)
      e(:, 2:, k) = e(:, 2:, k) - v2(:, :, k)
      if (k < n(3)) e(:, :, k) = e(:, :, k) + v3(:, :, k)
      if (k > 1) e(:, :, k) = e(:, :, k) - v3(:, :, k - 1)
    end do
  end subroutine

  ! Updates p and r from the stress rate `q` = k e, or from a linearised stress rate.
  subroutine relax(m, q, x)
    type(medium_t), intent(in) :: m
    real(dp), intent(in) :: q(:, :, :)
    type(state_t), intent(inout) :: x
    integer :: k
    !$omp parallel do schedule(static)
    do k = 1, size(q, 3)
      x%p(:, :, k) = x%p(:, :, k) - m%m * q(:, :, k) - m%h * (x%r1(:, :, k) + x%r2(:, :, k))
      x%r1(:, :, k) = m%a(1) * x%r1(:, :, k) - m%b(1) * q(:, :, k)
      x%r2(:, :, k) = m%a(2) * x%r2(:, :, k) - m%b(2) * q(:, :, k)
      x%p(:, :, k) = x%p(:, :, k) - m%h * (x%r1(:, :, k) + x%r2(:, :, k))
    end do
  end subroutine

  ! Computes x(t) -> x(t+1) without sources; e becomes the strain rate of x(t+1).
  subroutine step(m, x, e)
    type(medium_t), intent(in) :: m
    type(state_t), intent(inout) :: x
    real(dp), intent(out) :: e(:, :, :)
    call add_gradient(-m%c, x%p, x%v1, x%v2, x%v3)
    call divergence(x%v1, x%v2, x%v3, e)
    call relax(m, m%k * e, x)
  end subroutine

  ! The linearised step for a change dk of k, where e is the strain rate of the unchanged medium.
  subroutine linearised_step(m, dk, e, dx, de)
    type(medium_t), intent(in) :: m
    real(dp), intent(in) :: dk(:, :, :), e(:, :, :)
    type(state_t), intent(inout) :: dx
    real(dp), intent(out) :: de(:, :, :)
    call add_gradient(-m%c, dx%p, dx%v1, dx%v2, dx%v3)
    call divergence(dx%v1, dx%v2, dx%v3, de)
    call relax(m, m%k * de + dk * e, dx)
  end subroutine

  ! The transposed step y(t+1) -> y(t), which adds its share to the gradient; it needs p and v of
  ! x(t).
  subroutine adjoint_step(m, x, y, e, q, gradient)
    type(medium_t), intent(in) :: m
    type(state_t), intent(inout) :: x, y  ! x%v becomes v(t+1)
    real(dp), intent(out) :: e(:, :, :), q(:, :, :)
    real(dp), intent(inout) :: gradient(:, :, :)
    integer :: k
    call add_gradient(-m%c, x%p, x%v1, x%v2, x%v3)
    call divergence(x%v1, x%v2, x%v3, e)
    !$omp parallel do schedule(static)
    do k = 1, size(e, 3)
      y%r1(:, :, k) = y%r1(:, :, k) - m%h * y%p(:, :, k)
      y%r2(:, :, k) = y%r2(:, :, k) - m%h * y%p(:, :, k)
      q(:, :, k) = -m%m * y%p(:, :, k) - m%b(1) * y%r1(:, :, k) - m%b(2) * y%r2(:, :, k)
      gradient(:, :, k) = gradient(:, :, k) + e(:, :, k) * q(:, :, k)
      q(:, :, k) = m%k(:, :, k) * q(:, :, k)
      y%r1(:, :, k) = m%a(1) * y%r1(:, :, k) - m%h * y%p(:, :, k)
      y%r2(:, :, k) = m%a(2) * y%r2(:, :, k) - m%h * y%p(:, :, k)
    end do
    call add_gradient(-1.0_dp, q, y%v1, y%v2, y%v3)
    call divergence(y%v1, y%v2, y%v3, e)
    !$omp parallel do schedule(static)
    do k = 1, size(e, 3)
      y%p(:, :, k) = y%p(:, :, k) + m%c * e(:, :, k)
    end do
  end subroutine
end module

program viscoacoustic
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use gpuzip
  use gpuzip_gradient
  use viscoacoustic_waves
  implicit none
  real(dp), parameter :: pi = 3.14159265358979323846_dp, rho = 2000, dx = 10, tau(2) = [0.08_dp, 0.08_dp]
  ! Depth in cells of the source and of the receivers; every cell at this depth has a receiver.
  integer, parameter :: receivers = 2

  ! Cells and time steps; the path of gpuzip's configuration file, or blank.
  integer :: n1 = 24, n2 = 20, n3 = 28, steps = 160
  character(1000) :: config = ''
  ! The largest relative mismatch in the dot-product test; lossy snapshots need more than rounding.
  real(dp) :: tolerance = 1e-11_dp
  namelist /job/ n1, n2, n3, steps, config, tolerance

  type(medium_t) :: truth, known
  type(state_t), target :: x
  type(state_t), allocatable :: kept(:)
  type(state_t) :: y, change
  type(gpuzip_t) :: session
  type(gpuzip_stats_t) :: stats
  real(dp), allocatable :: e(:, :, :), q(:, :, :), dk(:, :, :), wavelet(:)
  ! Data, (n2, n3, steps-1).
  real(dp), allocatable :: observed(:, :, :), synthetic(:, :, :), linear(:, :, :)
  real(dp), allocatable :: gradient(:, :, :), expected(:, :, :)
  real(dp) :: dt, freq
  type(gpuzip_dot_t) :: test
  integer :: ts

  call read_job
  call prepare

  do ts = 1, steps - 1
    call forward_step(truth, ts)
    observed(:, :, ts) = x%p(receivers, :, :)
  end do
  call gradient_with_gpuzip
  call gradient_with_every_state
  call linearised_modelling

  ! <J dk, d - d_observed> = <dk, J'(d - d_observed)>
  test = gpuzip_dot(sum(linear * (synthetic - observed)), sum(dk * gradient), tolerance)
  print '(a, 3(i0, a), i0, a, f0.1)', 'model     ', n1, ' x ', n2, ' x ', n3, ' cells, ', steps, &
    ' steps; Q at the peak frequency is ', quality(freq)
  print '(a, i0, a, i0, a, i0, a)', 'snapshots ', stats%saves, ' saved, ', stats%restores, ' restored, ', stats%forward_steps, &
    ' forward steps'
  call gpuzip_dot_print(test)
  if (.not. test%passed) call stop_with('the gradient is not the adjoint of linearised modelling')
  if (any(transfer(gradient, [0_c_int64_t]) /= transfer(expected, [0_c_int64_t]))) &
    call stop_with('the gradient differs from that of keeping every state')
  print '(a)', 'gradient  identical to that of keeping every state'
  ! Leak checkers report arrays of a main program that are not deallocated at its end.
  deallocate (e, q, dk, wavelet, observed, synthetic, linear, gradient, expected)

contains

  subroutine read_job
    character(1000) :: path, message
    integer :: unit, status
    if (command_argument_count() > 0) then
      call get_command_argument(1, path)
      open (newunit=unit, file=path, action='read', status='old', iostat=status, iomsg=message)
      if (status == 0) read (unit, nml=job, iostat=status, iomsg=message)
      if (status /= 0) call stop_with(trim(path) // ': ' // message)
      close (unit)
    end if
    if (min(n1, n2, n3) < 4 .or. steps < 2) call stop_with('the job wants n1, n2, n3 >= 4 and steps >= 2')
  end subroutine

  ! Sets up the true medium with layers, some faster than the homogeneous medium of the inversion; a
  ! wavelet that the grid resolves; and a random change of the medium.
  subroutine prepare
    real(dp) :: speed(n1), t
    integer :: i, seed_size
    speed = [(2000 + 400 * mod(4 * i / n1, 3), i = 0, n1 - 1)]
    dt = 0.8_dp * dx / (maxval(speed) * sqrt(3 * (1 + sum(tau))))
    freq = minval(speed) / (12 * dx)
    truth = new_medium(dt, dx, rho, tau, sigma())
    known = truth
    allocate (truth%k(n1, n2, n3), known%k(n1, n2, n3), dk(n1, n2, n3))
    known%k = rho * speed(1)**2 / dx
    truth%k = spread(spread(rho * speed**2 / dx, 2, n2), 3, n3)
    call random_seed(size=seed_size)
    call random_seed(put=[(4242 + 17 * i, i = 1, seed_size)])
    call random_number(dk)
    dk = (dk - 0.5_dp) * known%k
    allocate (wavelet(0:steps - 1))
    do i = 0, steps - 1
      t = pi * freq * (i * dt - 1.2_dp / freq)
      wavelet(i) = dt * (1 - 2 * t * t) * exp(-(t * t))
    end do
    allocate (e(n1, n2, n3), q(n1, n2, n3), gradient(n1, n2, n3), expected(n1, n2, n3))
    allocate (observed(n2, n3, steps - 1), synthetic(n2, n3, steps - 1), linear(n2, n3, steps - 1))
    call rest(x, [n1, n2, n3])
  end subroutine

  ! Relaxation times whose absorption peaks lie below and above the wavelet's frequency.
  function sigma()
    real(dp) :: sigma(2)
    sigma = 1 / (2 * pi * freq * [0.3_dp, 3.0_dp])
  end function

  ! The quality factor at frequency f: real over imaginary part of 1 + sum tau i w sigma / (1 + i w
  ! sigma).
  real(dp) function quality(f)
    real(dp), intent(in) :: f
    complex(dp) :: iws(2), modulus
    iws = cmplx(0, 2 * pi * f * sigma(), dp)
    modulus = 1 + sum(tau * iws / (1 + iws))
    quality = real(modulus) / aimag(modulus)
  end function

  ! Computes x(ts-1) -> x(ts) with the source.
  subroutine forward_step(m, ts)
    type(medium_t), intent(in) :: m
    integer, intent(in) :: ts
    call step(m, x, e)
    x%p(receivers, n2 / 2, n3 / 2) = x%p(receivers, n2 / 2, n3 / 2) + wavelet(ts - 1)
  end subroutine

  ! Computes y(ts+1) -> y(ts); x is the state at ts.
  subroutine backward_step(ts, sum_of)
    integer, intent(in) :: ts
    real(dp), intent(inout) :: sum_of(:, :, :)
    if (ts + 1 < steps) y%p(receivers, :, :) = y%p(receivers, :, :) + synthetic(:, :, ts + 1) - observed(:, :, ts + 1)
    call adjoint_step(known, x, y, e, q, sum_of)
  end subroutine

  ! The six fields of the state for gpuzip; the allocatable arrays do not move.
  function fields() result(all_of_x)
    type(gpuzip_field_t) :: all_of_x(6)
    all_of_x = [gpuzip_field(x%v1), gpuzip_field(x%v2), gpuzip_field(x%v3), gpuzip_field(x%p), gpuzip_field(x%r1), &
                gpuzip_field(x%r2)]
  end function

  subroutine begin(sum_of)
    real(dp), intent(out) :: sum_of(:, :, :)
    call rest(x, [n1, n2, n3])
    call rest(y, [n1, n2, n3])
    sum_of = 0
  end subroutine

  subroutine gradient_with_gpuzip
    type(gpuzip_config_t) :: settings
    type(gpuzip_action_t) :: action
    call gpuzip_config_load(settings, config)
    settings%range_actions = 0  ! one step per action
    settings%adjoint_every = 0  ! the gradient needs every state
    call gpuzip_init(settings, steps, fields(), session)
    call gpuzip_config_free(settings)
    call begin(gradient)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        call forward_step(known, action%ts)
        if (.not. gpuzip_has_flag(action, gpuzip_flag_recompute)) synthetic(:, :, action%ts) = x%p(receivers, :, :)
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, fields())
      case (gpuzip_action_restore)
        call gpuzip_retrieve(session, action%ts, fields())
      case (gpuzip_action_backward)
        call backward_step(action%ts, gradient)
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_stats(session, stats)
    call gpuzip_finalize(session)
  end subroutine

  subroutine gradient_with_every_state
    integer :: ts
    allocate (kept(0:steps - 1))
    call begin(expected)
    do ts = 0, steps - 1
      if (ts > 0) call forward_step(known, ts)
      kept(ts) = x
    end do
    do ts = steps - 1, 0, -1
      x = kept(ts)
      call backward_step(ts, expected)
    end do
    deallocate (kept)
  end subroutine

  ! Computes `linear`, the first-order change of the data for a change dk of the known medium.
  subroutine linearised_modelling
    integer :: ts
    call rest(x, [n1, n2, n3])
    call rest(change, [n1, n2, n3])
    do ts = 1, steps - 1
      call forward_step(known, ts)
      call linearised_step(known, dk, e, change, q)
      linear(:, :, ts) = change%p(receivers, :, :)
    end do
  end subroutine

  subroutine stop_with(message)
    character(*), intent(in) :: message
    write (error_unit, '(a)') trim(message)
    flush (error_unit)
    error stop 2
  end subroutine
end program
