! Declares the variables that the Fortran blocks of the documentation use. tests/foreign/blocks.rs puts such a
! block in the place of the last comment line and compiles the result.
subroutine fragment(session, config, action, curr, prev, steps, communicator)
  use gpuzip
  use, intrinsic :: iso_c_binding
  implicit none
  type(gpuzip_t), intent(inout) :: session
  type(gpuzip_config_t), intent(inout) :: config
  type(gpuzip_action_t), intent(inout) :: action
  real(c_float), target, intent(inout) :: curr(:, :), prev(:, :)
  integer(c_int32_t), intent(in) :: steps
  integer, target, intent(in) :: communicator
  type(gpuzip_field_t) :: fields(2)
  type(gpuzip_generation_t) :: found
  integer(c_int32_t) :: status, due
  integer(c_int64_t) :: shot
  character(c_char), allocatable, target :: buffer(:)
  character(200) :: reason
  interface
    integer(c_int32_t) function least(user, value) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: user
      integer(c_int64_t), intent(inout) :: value
    end function
  end interface
  fields = [gpuzip_field(curr), gpuzip_field(prev)]
! BLOCK
end subroutine
