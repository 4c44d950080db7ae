! Runs a session from Fortran on a state in device memory and a stream of the application, and
! checks every restored state. Prints "identical", or stops.
program gpu
  use gpuzip
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_size_t), parameter :: bytes = 8 * 33 * 7
  integer(c_int32_t), parameter :: steps = 40

  interface
    integer(c_int) function cuInit(flags) bind(c, name='cuInit')
      import
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuDevicePrimaryCtxRetain(context, device) bind(c, name='cuDevicePrimaryCtxRetain')
      import
      type(c_ptr), intent(out) :: context
      integer(c_int), value :: device
    end function
    integer(c_int) function cuCtxSetCurrent(context) bind(c, name='cuCtxSetCurrent')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int) function cuMemAlloc(address, bytes) bind(c, name='cuMemAlloc_v2')
      import
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuStreamCreate(stream, flags) bind(c, name='cuStreamCreate')
      import
      integer(c_intptr_t), intent(out) :: stream
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuMemcpyHtoDAsync(to, from, bytes, stream) bind(c, name='cuMemcpyHtoDAsync_v2')
      import
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_intptr_t), value :: stream
    end function
    integer(c_int) function cuMemcpyDtoHAsync(to, from, bytes, stream) bind(c, name='cuMemcpyDtoHAsync_v2')
      import
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_intptr_t), value :: stream
    end function
    integer(c_int) function cuStreamSynchronize(stream) bind(c, name='cuStreamSynchronize')
      import
      integer(c_intptr_t), value :: stream
    end function
  end interface

  real(c_double), target :: u(33, 7)
  type(c_ptr) :: context, device
  integer(c_intptr_t) :: stream
  type(gpuzip_config_t) :: config
  type(gpuzip_t) :: session
  type(gpuzip_action_t) :: action
  type(gpuzip_stats_t) :: stats
  type(gpuzip_field_t) :: field
  integer :: live = 0, reversed = 0

  call cuda(cuInit(0))
  call cuda(cuDevicePrimaryCtxRetain(context, 0))
  call cuda(cuCtxSetCurrent(context))
  call cuda(cuMemAlloc(device, bytes))
  call cuda(cuStreamCreate(stream, 1))
  call gpuzip_config_init(config)
  config%checkpointing_algorithm = gpuzip_algorithm_revolve
  config%checkpointing_snaps = 5
  config%cache_capacity = 2
  config%range_actions = 0
  field = gpuzip_field(device, gpuzip_type_f64, shape(u))
  call gpuzip_init(config, steps, [field], session)
  call write_state
  do
    call gpuzip_get_action(session, action)
    select case (action%type)
    case (gpuzip_action_forward)
      live = action%ts
      call write_state
    case (gpuzip_action_save)
      call gpuzip_save(session, action%ts, [field], gpuzip_stream(stream))
    case (gpuzip_action_restore)
      live = -1
      call write_state
      call gpuzip_retrieve(session, action%ts, [field], gpuzip_stream(stream))
      live = action%ts
    case (gpuzip_action_backward)
      u = 0
      call cuda(cuMemcpyDtoHAsync(c_loc(u), device, bytes, stream))
      call cuda(cuStreamSynchronize(stream))
      if (any(nint(u) /= action%ts)) error stop 'DIFFERENT'
      reversed = reversed + 1
    case (gpuzip_action_terminate)
      exit
    end select
  end do
  call gpuzip_stats(session, stats)
  call gpuzip_finalize(session)
  call code_alone
  if (reversed /= steps .or. stats%d2h == 0 .or. stats%h2d == 0) error stop 'no transfers'
  print '(a)', 'identical'

contains

  ! Codes the state into device memory and back, without a session; the result is in device memory, too.
  subroutine code_alone
    type(c_ptr) :: coded, work, place
    integer(c_int64_t) :: room, work_bytes
    type(gpuzip_codec_result_t), target :: result
    config%compressor = gpuzip_compressor_fp16
    live = 17
    call write_state
    call gpuzip_codec_bound(config, [field], room)
    call gpuzip_codec_work(config, [field], work_bytes)
    call cuda(cuMemAlloc(coded, int(room, c_size_t)))
    call cuda(cuMemAlloc(work, int(work_bytes, c_size_t)))
    call cuda(cuMemAlloc(place, c_sizeof(result)))
    call gpuzip_codec_encode(config, [field], coded, room, work, work_bytes, place, gpuzip_stream(stream))
    live = -1
    call write_state
    call gpuzip_codec_decode(config, coded, room, [field], work, work_bytes, place, gpuzip_stream(stream))
    call cuda(cuMemcpyDtoHAsync(c_loc(u), device, bytes, stream))
    call cuda(cuMemcpyDtoHAsync(c_loc(result), place, c_sizeof(result), stream))
    call cuda(cuStreamSynchronize(stream))
    if (result%status /= gpuzip_ok .or. result%bytes == 0 .or. any(nint(u) /= 17)) error stop 'not decoded'
  end subroutine

  subroutine write_state
    u = live
    call cuda(cuMemcpyHtoDAsync(device, c_loc(u), bytes, stream))
  end subroutine

  subroutine cuda(status)
    integer(c_int), intent(in) :: status
    if (status == 0) return
    print '(a, i0)', 'CUDA error ', status
    error stop 1
  end subroutine
end program
