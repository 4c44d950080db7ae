! The gradient of viscoelastic waveform inversion with every state kept: before FILE writes it.
program before
  use viscoelastic_waves
  implicit none
  type(state_t) :: u, adjoint
  type(state_t), allocatable :: kept(:)
  integer :: ts

  call begin()
  call rest(u)
  call rest(adjoint)
  allocate (kept(0:steps - 1))
  do ts = 0, steps - 1
    kept(ts) = u
    call step(u, ts)
  end do
  do ts = steps - 1, 0, -1
    u = kept(ts)
    call adjoint_step(u, adjoint, ts)
  end do
  call finish()
end program
