! The physics that before.f90 and after.f90 share: 2-D viscoelastic waves, and the gradient of a misfit
! of seismograms with respect to the relaxed moduli. It knows nothing of checkpointing.
!
! Particle velocity v, stress t and memory variables r of one relaxation mechanism on a staggered grid
! with rigid walls (Robertsson, Blanch and Symes, Geophysics 59, 1994; the moduli p = lambda + 2 mu and
! mu are relaxed, tau_p and tau_s say how much stiffer waves find them):
!
!     rho v_t = div t
!     txx_t = p (1 + tau_p) div v - 2 mu (1 + tau_s) vz_z + rxx + source    and tzz, with vx_x
!     txz_t = mu (1 + tau_s) (vx_z + vz_x) + rxz
!     r_t   = -(r + the same terms with tau_p and tau_s in place of 1 + tau_p and 1 + tau_s) / sigma
!
! A wave loses energy, so the run cannot be computed backwards: every state has to be kept or
! computed again. The adjoint step is the exact transpose of a time step.
module viscoelastic_waves
  use, intrinsic :: iso_c_binding, only: wp => c_float, dp => c_double
  implicit none

  integer, parameter :: nz = 120, nx = 160, steps = 600
  integer, parameter :: source_z = 5, source_x = 80, receiver_z = 7
  real(dp), parameter :: dx = 10, dt = 1e-3_dp, rho = 2200, sigma = 0.02_dp, tau_p = 0.1_dp, tau_s = 0.15_dp

  ! Fields of nz rows and nx columns; the outermost belong to the walls, where everything stays 0.
  type state_t
    real(wp), allocatable :: vx(:, :), vz(:, :), txx(:, :), tzz(:, :), txz(:, :), rxx(:, :), rzz(:, :), rxz(:, :)
  end type

  real(wp), parameter :: c = real(dt / (rho * dx), wp), h = real(dt / 2, wp)
  real(wp), parameter :: a = real((1 - dt / (2 * sigma)) / (1 + dt / (2 * sigma)), wp)
  real(wp), parameter :: b = real(dt / sigma / (1 + dt / (2 * sigma)), wp)
  real(wp) :: p(nz, nx), mu(nz, nx)                  ! relaxed moduli over dx; 0 at the walls
  real(wp) :: gradient(nz, nx, 2) = 0                ! by p and by mu
  real(wp) :: observed(nx, steps), computed(nx, steps)
  integer :: recorded = 0                            ! time steps of `computed` so far
  real(dp) :: misfit = 0

contains

  subroutine rest(u)
    type(state_t), intent(out) :: u
    allocate (u%vx(nz, nx), u%vz(nz, nx), u%txx(nz, nx), u%tzz(nz, nx), u%txz(nz, nx))
    allocate (u%rxx(nz, nx), u%rzz(nz, nx), u%rxz(nz, nx))
    u%vx = 0; u%vz = 0; u%txx = 0; u%tzz = 0; u%txz = 0; u%rxx = 0; u%rzz = 0; u%rxz = 0
  end subroutine

  ! Sets the moduli, 1.25 times as stiff inside a disc if `with_disc`.
  subroutine set_medium(with_disc)
    logical, intent(in) :: with_disc
    integer :: i, j
    real(dp) :: stiff
    p = 0
    mu = 0
    do j = 2, nx - 1
      do i = 2, nz - 1
        stiff = rho / dx * merge(1.25_dp, 1.0_dp, with_disc .and. hypot(i - 70.0_dp, j - 70.0_dp) < 15)
        p(i, j) = real(stiff * 3000.0_dp**2, wp)
        mu(i, j) = real(stiff * 1700.0_dp**2, wp)
      end do
    end do
  end subroutine

  ! Computes the velocities of the next time step.
  subroutine next_velocity(u, vx, vz)
    type(state_t), intent(in) :: u
    real(wp), intent(inout) :: vx(nz, nx), vz(nz, nx)
    integer :: i, j
    do j = 2, nx - 1
      do i = 2, nz - 1
        vx(i, j) = u%vx(i, j) + c * (u%txx(i, j) - u%txx(i, j - 1) + u%txz(i, j) - u%txz(i - 1, j))
        vz(i, j) = u%vz(i, j) + c * (u%txz(i, j + 1) - u%txz(i, j) + u%tzz(i + 1, j) - u%tzz(i, j))
      end do
    end do
  end subroutine

  ! Records the seismograms of u(ts+1) when the step is computed for the first time.
  subroutine record(vz, ts)
    real(wp), intent(in) :: vz(nz, nx)
    integer, intent(in) :: ts
    if (ts < recorded) return
    computed(:, ts + 1) = vz(receiver_z, :)
    recorded = ts + 1
  end subroutine

  ! Updates the stress t and its memory variable r by the rate of strain.
  elemental subroutine relax(t, r, rate, slow)
    real(wp), intent(inout) :: t, r
    real(wp), intent(in) :: rate, slow
    t = t + real(dt, wp) * rate + h * r
    r = a * r - b * slow
    t = t + h * r
  end subroutine

  ! Computes u(ts+1) in place of u(ts).
  subroutine step(u, ts)
    type(state_t), intent(inout) :: u
    integer, intent(in) :: ts
    real(wp), parameter :: tp = real(tau_p, wp), s = real(tau_s, wp)
    real(wp) :: exx, ezz, exz
    integer :: i, j
    call next_velocity(u, u%vx, u%vz)
    do j = 2, nx - 1
      do i = 2, nz - 1
        exx = u%vx(i, j + 1) - u%vx(i, j)
        ezz = u%vz(i, j) - u%vz(i - 1, j)
        exz = u%vx(i + 1, j) - u%vx(i, j) + u%vz(i, j) - u%vz(i, j - 1)
        call relax(u%txx(i, j), u%rxx(i, j), p(i, j) * (1 + tp) * (exx + ezz) - 2 * mu(i, j) * (1 + s) * ezz, &
          p(i, j) * tp * (exx + ezz) - 2 * mu(i, j) * s * ezz)
        call relax(u%tzz(i, j), u%rzz(i, j), p(i, j) * (1 + tp) * (exx + ezz) - 2 * mu(i, j) * (1 + s) * exx, &
          p(i, j) * tp * (exx + ezz) - 2 * mu(i, j) * s * exx)
        call relax(u%txz(i, j), u%rxz(i, j), mu(i, j) * (1 + s) * exz, mu(i, j) * s * exz)
      end do
    end do
    u%txx(source_z, source_x) = u%txx(source_z, source_x) + wavelet(ts)
    u%tzz(source_z, source_x) = u%tzz(source_z, source_x) + wavelet(ts)
    call record(u%vz, ts)
  end subroutine

  ! A Ricker wavelet of 15 Hz and 1 MPa.
  real(wp) function wavelet(ts)
    integer, intent(in) :: ts
    real(dp) :: x
    x = (3.14159265358979_dp * 15 * (dt * ts - 0.08_dp))**2
    wavelet = real(1e6_dp * (1 - 2 * x) * exp(-x), wp)
  end function

  ! Transposes `relax`: takes the adjoints of t and r to the time step before; `rate` and `slow`
  ! become those of its last two arguments.
  elemental subroutine relax_adjoint(t, r, rate, slow)
    real(wp), intent(in) :: t
    real(wp), intent(inout) :: r
    real(wp), intent(out) :: rate, slow
    rate = real(dt, wp) * t
    slow = -b * (r + h * t)
    r = a * (r + h * t) + h * t
  end subroutine

  ! Takes the adjoint state from ts+1 to ts and adds to the gradient; u is u(ts).
  subroutine adjoint_step(u, adjoint, ts)
    type(state_t), intent(in) :: u
    type(state_t), intent(inout) :: adjoint
    integer, intent(in) :: ts
    real(wp), parameter :: tp = real(tau_p, wp), s = real(tau_s, wp)
    real(wp), save :: vx(nz, nx) = 0, vz(nz, nx) = 0, ax(nz, nx) = 0, az(nz, nx) = 0, as(nz, nx) = 0
    real(wp) :: exx, ezz, exz, rate(3), slow(3), by_p, by_mu(3)
    integer :: i, j
    call next_velocity(u, vx, vz)
    call record(vz, ts) ! u(n) is nowhere else
    misfit = misfit + 0.5_dp * sum(real(computed(:, ts + 1) - observed(:, ts + 1), dp)**2)
    adjoint%vz(receiver_z, :) = adjoint%vz(receiver_z, :) + computed(:, ts + 1) - observed(:, ts + 1)
    do j = 2, nx - 1
      do i = 2, nz - 1
        exx = vx(i, j + 1) - vx(i, j)
        ezz = vz(i, j) - vz(i - 1, j)
        exz = vx(i + 1, j) - vx(i, j) + vz(i, j) - vz(i, j - 1)
        call relax_adjoint(adjoint%txx(i, j), adjoint%rxx(i, j), rate(1), slow(1))
        call relax_adjoint(adjoint%tzz(i, j), adjoint%rzz(i, j), rate(2), slow(2))
        call relax_adjoint(adjoint%txz(i, j), adjoint%rxz(i, j), rate(3), slow(3))
        by_p = (1 + tp) * (rate(1) + rate(2)) + tp * (slow(1) + slow(2))
        by_mu = (1 + s) * rate + s * slow
        gradient(i, j, 1) = gradient(i, j, 1) + by_p * (exx + ezz)
        gradient(i, j, 2) = gradient(i, j, 2) - 2 * (by_mu(1) * ezz + by_mu(2) * exx) + by_mu(3) * exz
        ax(i, j) = p(i, j) * by_p - 2 * mu(i, j) * by_mu(2) ! the adjoint of exx
        az(i, j) = p(i, j) * by_p - 2 * mu(i, j) * by_mu(1) ! of ezz
        as(i, j) = mu(i, j) * by_mu(3)                      ! of exz
      end do
    end do
    do j = 2, nx - 1
      do i = 2, nz - 1
        adjoint%vx(i, j) = adjoint%vx(i, j) + ax(i, j - 1) - ax(i, j) + as(i - 1, j) - as(i, j)
        adjoint%vz(i, j) = adjoint%vz(i, j) + az(i, j) - az(i + 1, j) + as(i, j) - as(i, j + 1)
      end do
    end do
    do j = 2, nx - 1
      do i = 2, nz - 1
        adjoint%txx(i, j) = adjoint%txx(i, j) + c * (adjoint%vx(i, j) - adjoint%vx(i, j + 1))
        adjoint%tzz(i, j) = adjoint%tzz(i, j) + c * (adjoint%vz(i - 1, j) - adjoint%vz(i, j))
        adjoint%txz(i, j) = adjoint%txz(i, j) + c * (adjoint%vx(i, j) - adjoint%vx(i + 1, j) + adjoint%vz(i, j - 1) &
          - adjoint%vz(i, j))
      end do
    end do
  end subroutine

  ! Computes the seismograms of the medium with the disc.
  subroutine begin()
    type(state_t) :: u
    integer :: ts
    call set_medium(.true.)
    call rest(u)
    do ts = 0, steps - 1
      call step(u, ts)
    end do
    observed = computed
    recorded = 0
    call set_medium(.false.)
  end subroutine

  ! Prints the misfit and writes the gradient into the file that the command line names.
  subroutine finish()
    character(200) :: path
    integer :: unit
    path = 'gradient'
    if (command_argument_count() > 0) call get_command_argument(1, path)
    open (newunit=unit, file=path, access='stream', form='unformatted', status='replace')
    write (unit) gradient
    close (unit)
    print '(a, es9.3)', 'misfit ', misfit
  end subroutine
end module
