! gpuzip from Fortran, over the C interface: smoke <steps> <algorithm> <snapshots> <cache> runs three shots of a state with a double
! and a single precision field, and compares the state at every BACKWARD, bit for bit, with a run that stores every state.
module gpuzip_smoke
  use, intrinsic :: iso_c_binding
  implicit none

  ! Block 1 of gpuzip_config_t: with struct_size = 0 the library reads no more than this.
  type, bind(c) :: config_t
    integer(c_int32_t) :: algorithm = 1, snapshots = 0, cache = 0, compressor = 0, log_level = 2, performance_log = 0, rate_log = 0
    real(c_float) :: compression_factor = 0
    type(c_ptr) :: trace_file_path = c_null_ptr
    integer(c_int32_t) :: revolve_log_level = 0, zfp_bit_rate = 0
    real(c_double) :: cuszp_err_bound = 0
    type(c_ptr) :: float_kind = c_null_ptr
    integer(c_int32_t) :: bitcomp_delta_config = 0
    real(c_double) :: bitcomp_range_fraction = 0, bitcomp_num_sigma = 0, bitcomp_delta = 0
    integer(c_int32_t) :: bitcomp_algorithm = 0
    integer(c_int64_t) :: struct_size = 0
  end type

  type, bind(c) :: action_t
    integer(c_int32_t) :: kind, ts, ts_end, flags
    integer(c_int64_t) :: it, reserved(2)
  end type

  type, bind(c) :: field_t
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: n1 = 1, n2 = 1, n3 = 1
    integer(c_int32_t) :: kind = 0, role = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  integer(c_int32_t), parameter :: forward = 0, save_state = 1, restore = 2, backward = 3, terminate = 4, f32 = 0, f64 = 1

  interface
    integer(c_int32_t) function gpuzip_init(config, steps, fields, nfields, handle) bind(c)
      import
      type(config_t), intent(in) :: config
      integer(c_int32_t), value :: steps, nfields
      type(field_t), intent(in) :: fields(*)
      type(c_ptr), intent(out) :: handle
    end function

    integer(c_int32_t) function gpuzip_setup(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function

    integer(c_int32_t) function gpuzip_get_action(handle, action) bind(c)
      import
      type(c_ptr), value :: handle
      type(action_t), intent(out) :: action
    end function

    integer(c_int32_t) function gpuzip_save(handle, ts, fields, nfields, stream) bind(c)
      import
      type(c_ptr), value :: handle, stream
      integer(c_int32_t), value :: ts, nfields
      type(field_t), intent(in) :: fields(*)
    end function

    integer(c_int32_t) function gpuzip_retrieve(handle, ts, fields, nfields, stream) bind(c)
      import
      type(c_ptr), value :: handle, stream
      integer(c_int32_t), value :: ts, nfields
      type(field_t), intent(in) :: fields(*)
    end function

    integer(c_int32_t) function gpuzip_finalize(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function

    type(c_ptr) function gpuzip_last_error() bind(c)
      import
    end function
  end interface

contains

  subroutine check(status)
    integer(c_int32_t), intent(in) :: status
    character(kind=c_char), pointer :: text(:)
    integer :: i
    if (status >= 0) return
    call c_f_pointer(gpuzip_last_error(), text, [4096])
    do i = 1, size(text)
      if (text(i) == c_null_char) exit
      write (*, '(a)', advance='no') text(i)
    end do
    write (*, '(a)') ''
    error stop 2
  end subroutine

  subroutine start(shot, u, v)
    integer, intent(in) :: shot
    real(c_double), intent(out) :: u(:, :)
    real(c_float), intent(out) :: v(:, :)
    u = 0
    u(1 + shot, 2) = 1 / 3.0_c_double
    v = 0.1_c_float * real(shot, c_float)
  end subroutine

  subroutine step(u, v)
    real(c_double), intent(inout) :: u(:, :)
    real(c_float), intent(inout) :: v(:, :)
    u = u + 0.2_c_double * (cshift(u, 1, 1) + cshift(u, 1, 2) - 2 * u)
    v = 0.9_c_float * v + real(cshift(u, -1, 1), c_float)
  end subroutine
end module

program smoke
  use gpuzip_smoke
  implicit none
  integer, parameter :: n1 = 17, n2 = 9
  real(c_double), target :: u(n1, n2)
  real(c_float), target :: v(n1, n2)
  real(c_double), allocatable :: all_u(:, :, :)
  real(c_float), allocatable :: all_v(:, :, :)
  type(config_t) :: config
  type(field_t) :: fields(2)
  type(action_t) :: action
  type(c_ptr) :: session
  integer(c_int32_t) :: argument(4)
  integer :: i, shot, reversed
  character(len=16) :: text
  logical :: same

  do i = 1, 4
    call get_command_argument(i, text)
    read (text, *) argument(i)
  end do
  config%algorithm = argument(2)
  config%snapshots = argument(3)
  config%cache = argument(4)
  fields = [field_t(c_loc(u), n1, n2, kind=f64), field_t(c_loc(v), n1, n2, kind=f32)]
  allocate (all_u(n1, n2, 0:argument(1)), all_v(n1, n2, 0:argument(1)))
  call check(gpuzip_init(config, argument(1), fields, 2, session))

  same = .true.
  do shot = 1, 3
    call start(shot, all_u(:, :, 0), all_v(:, :, 0))
    do i = 1, argument(1)
      all_u(:, :, i) = all_u(:, :, i - 1)
      all_v(:, :, i) = all_v(:, :, i - 1)
      call step(all_u(:, :, i), all_v(:, :, i))
    end do

    call check(gpuzip_setup(session))
    call start(shot, u, v)
    reversed = 0
    do
      call check(gpuzip_get_action(session, action))
      select case (action%kind)
      case (forward)
        call step(u, v)
      case (save_state)
        call check(gpuzip_save(session, action%ts, fields, 2, c_null_ptr))
      case (restore)
        call check(gpuzip_retrieve(session, action%ts, fields, 2, c_null_ptr))
      case (backward)
        same = same .and. all(transfer(u, [0_c_int64_t]) == transfer(all_u(:, :, action%ts), [0_c_int64_t])) &
               .and. all(transfer(v, [0_c_int32_t]) == transfer(all_v(:, :, action%ts), [0_c_int32_t]))
        reversed = reversed + 1
        u = huge(u)
        v = huge(v)
      case (terminate)
        exit
      end select
    end do
    same = same .and. reversed == argument(1)
  end do
  call check(gpuzip_finalize(session))

  if (.not. same) error stop 'DIFFERENT'
  print '(a)', 'identical'
end program
