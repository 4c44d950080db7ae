! The gradient of fortran/examples/viscoelastic is the derivative of the misfit: in FP64 it equals the
! central difference along a smooth direction, for p and for mu.
program viscoelastic
  use viscoelastic_waves
  implicit none
  real(wp) :: direction(nz, nx)
  real(dp) :: slope, difference
  integer :: i, j, k

  call begin()
  call run(.true.)
  do j = 1, nx
    do i = 1, nz
      direction(i, j) = real(3e-6_dp * sin(0.05_dp * j) * cos(0.08_dp * i), wp) * mu(i, j)
    end do
  end do
  do k = 1, 2
    slope = sum(real(gradient(:, :, k) * direction, dp))
    call move(1.0_wp)
    call run(.false.)
    difference = misfit / 2
    call move(-2.0_wp)
    call run(.false.)
    difference = difference - misfit / 2
    call move(1.0_wp)
    if (abs(difference / slope - 1) > 1e-6_dp) then
      print *, k, slope, difference
      error stop 'the gradient is wrong'
    end if
  end do
  print '(a)', 'ok'

contains

  subroutine move(factor)
    real(wp), intent(in) :: factor
    if (k == 1) p = p + factor * direction
    if (k == 2) mu = mu + factor * direction
  end subroutine

  subroutine run(with_gradient)
    logical, intent(in) :: with_gradient
    type(state_t) :: u, adjoint
    type(state_t), allocatable :: kept(:)
    integer :: ts
    call rest(u)
    call rest(adjoint)
    recorded = 0
    if (with_gradient) allocate (kept(0:steps - 1))
    do ts = 0, steps - 1
      if (with_gradient) kept(ts) = u
      call step(u, ts)
    end do
    misfit = 0
    do ts = steps - 1, 0, -1
      if (with_gradient) call adjoint_step(kept(ts), adjoint, ts)
    end do
    misfit = 0.5_dp * sum(real(computed - observed, dp)**2)
  end subroutine
end program
