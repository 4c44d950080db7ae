! What calls.f90 uses: checks, a configuration, a loop over actions, and the callbacks of a run and of
! a codec.
module calls_support
  use gpuzip
  use, intrinsic :: iso_c_binding
  implicit none
  private ! gfortran 12 cannot take names of iso_c_binding from this module and from that one
  public :: expect, refused, has, revolve, next, alone, told, told_shot, on_least, on_line, sign_bytes, sign_compress, &
            sign_decompress, run_t, callbacks_of, on_backward_range, lines, last_line, mark, reductions
  integer :: lines = 0
  integer(c_int64_t) :: told_shot = -1
  character(:), allocatable :: last_line
  integer(c_int32_t), target :: mark = 77, reductions = 0

  ! The application's data, which all callbacks of a run use.
  type run_t
    real(c_double) :: u(4, 2) = 0
    integer :: now = 1, ts = 0, reversed = 0, restored = 0
    integer(c_int32_t) :: result = gpuzip_ok
  end type

contains

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    print '(2a)', 'not so: ', what
    error stop 1
  end subroutine

  ! Checks that a call failed with `status` and that its error text contains `part`.
  subroutine refused(stat, errmsg, status, part)
    integer, intent(in) :: stat
    character(*), intent(in) :: errmsg, part
    integer(c_int32_t), intent(in) :: status
    if (stat /= status .or. index(errmsg, part) == 0) print '(i0, 4a)', stat, ' ', trim(errmsg), ' instead of ', part
    call expect(stat == status .and. index(errmsg, part) > 0, 'an error with its text')
  end subroutine

  ! Checks extents and pitches of a field.
  subroutine has(field, expected, what)
    type(gpuzip_field_t), intent(in) :: field
    integer, intent(in) :: expected(5)
    character(*), intent(in) :: what
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == expected), what)
  end subroutine

  ! A configuration for Revolve.
  type(gpuzip_config_t) function revolve(snaps, cache)
    integer, intent(in) :: snaps
    integer, intent(in), optional :: cache
    call gpuzip_config_init(revolve)
    revolve%checkpointing_algorithm = gpuzip_algorithm_revolve
    revolve%checkpointing_snaps = snaps
    if (present(cache)) revolve%cache_capacity = cache
  end function

  ! Takes the next action and, if it is a SAVE or a RESTORE, serves it with `field`. Returns false at
  ! TERMINATE.
  logical function next(session, action, field)
    type(gpuzip_t), intent(in) :: session
    type(gpuzip_action_t), intent(inout) :: action
    type(gpuzip_field_t), intent(in) :: field
    call gpuzip_get_action(session, action)
    if (action%type == gpuzip_action_save) call gpuzip_save(session, action%ts, [field])
    if (action%type == gpuzip_action_restore) call gpuzip_retrieve(session, action%ts, [field])
    next = action%type /= gpuzip_action_terminate
  end function

  ! The reduction for restart files, which ask as often as they need.
  integer(c_int32_t) function alone(user, value) bind(c)
    type(c_ptr), value :: user
    integer(c_int64_t), intent(inout) :: value
    alone = merge(0_c_int32_t, 1_c_int32_t, c_associated(user) .and. abs(value) < huge(value))
  end function

  ! Is told of a generation that is on the disk.
  integer(c_int32_t) function told(user, file, generation) bind(c)
    type(c_ptr), value :: user
    type(c_ptr), value :: file
    type(gpuzip_generation_t), intent(in) :: generation
    told = merge(0_c_int32_t, 1_c_int32_t, c_associated(user) .and. c_associated(file))
    told_shot = generation%shot
  end function

  ! The reduction for gpuzip_agree with a single rank: the minimum is the rank's own value.
  integer(c_int32_t) function on_least(user, value) bind(c)
    type(c_ptr), value :: user
    integer(c_int64_t), intent(inout) :: value
    integer(c_int32_t), pointer :: calls
    call c_f_pointer(user, calls)
    calls = calls + 1
    call expect(value >= 0, 'a value to be reduced')
    on_least = 0
  end function

  subroutine on_line(level, message, user) bind(c)
    integer(c_int32_t), value :: level
    type(c_ptr), value :: message, user
    integer(c_int32_t), pointer :: registered
    call c_f_pointer(user, registered)
    registered = level
    last_line = gpuzip_from_c(message)
    lines = lines + 1
  end subroutine

  ! A codec that keeps only the sign of each value: sign_bytes is its max_bytes callback.
  integer(c_int64_t) function sign_bytes(user, field) bind(c)
    type(c_ptr), value :: user
    type(gpuzip_field_t), intent(in) :: field
    call expect(c_associated(user, c_loc(mark)), 'user of max_bytes')
    sign_bytes = field%n1 * field%n2 * field%n3
  end function

  integer(c_int32_t) function sign_compress(user, field, rms, bound, to, capacity, bytes) bind(c)
    type(c_ptr), value :: user, to
    type(gpuzip_field_t), intent(in) :: field
    integer(c_int32_t), value :: rms
    real(c_double), value :: bound
    integer(c_int64_t), value :: capacity
    integer(c_int64_t), intent(inout) :: bytes
    integer(c_int8_t), pointer :: out(:)
    real(c_float), pointer :: in(:, :)
    call expect(c_associated(user, c_loc(mark)) .and. rms == 0 .and. bound > 0, 'arguments of compress')
    call gpuzip_view(field, in)
    bytes = size(in)
    call expect(capacity >= bytes, 'capacity of compress')
    call c_f_pointer(to, out, [bytes])
    out = int(reshape(sign(1.0, in), [size(in)]), c_int8_t)
    sign_compress = gpuzip_ok
  end function

  integer(c_int32_t) function sign_decompress(user, from, bytes, field) bind(c)
    type(c_ptr), value :: user, from
    integer(c_int64_t), value :: bytes
    type(gpuzip_field_t), intent(in) :: field
    integer(c_int8_t), pointer :: in(:)
    real(c_float), pointer :: out(:, :)
    call expect(c_associated(user, c_loc(mark)), 'user of decompress')
    call gpuzip_view(field, out)
    call c_f_pointer(from, in, [bytes])
    out = reshape(real(in, c_float), shape(out))
    sign_decompress = gpuzip_ok
  end function

  type(gpuzip_callbacks_t) function callbacks_of(run)
    type(run_t), target, intent(in) :: run
    callbacks_of = gpuzip_callbacks_t(user=c_loc(run), forward=c_funloc(on_forward), backward=c_funloc(on_backward), &
                                      locate=c_funloc(on_locate), observe=c_funloc(on_observe))
  end function

  ! The callbacks of a run: each forward step adds 1 to u and swaps the two buffers.

  integer(c_int32_t) function on_forward(user, ts, ts_end, flags) bind(c)
    type(c_ptr), value :: user
    integer(c_int32_t), value :: ts, ts_end, flags
    type(run_t), pointer :: run
    call c_f_pointer(user, run)
    call expect(run%ts == ts - 1 .and. iand(flags, gpuzip_flag_recompute) >= 0, 'a forward step')
    run%u(:, 3 - run%now) = run%u(:, run%now) + (ts_end - ts + 1)
    run%now = 3 - run%now
    run%ts = ts_end
    on_forward = gpuzip_ok
  end function

  integer(c_int32_t) function on_backward(user, ts, flags) bind(c)
    type(c_ptr), value :: user
    integer(c_int32_t), value :: ts, flags
    type(run_t), pointer :: run
    call c_f_pointer(user, run)
    call expect(run%ts == ts .and. all(run%u(:, run%now) == ts), 'the state of a backward step')
    call expect(iand(flags, gpuzip_flag_first_backward) /= 0 .eqv. run%reversed == 0, 'the flag of a backward step')
    run%reversed = run%reversed + 1
    on_backward = run%result
  end function

  integer(c_int32_t) function on_backward_range(user, ts, ts_end, flags) bind(c)
    type(c_ptr), value :: user
    integer(c_int32_t), value :: ts, ts_end, flags
    type(run_t), pointer :: run
    call c_f_pointer(user, run)
    call expect(run%ts == ts .and. all(run%u(:, run%now) == ts), 'the state of a range of backward steps')
    call expect(iand(flags, gpuzip_flag_first_backward) /= 0 .eqv. run%reversed == 0, 'the flag of a range')
    call expect(ts_end == 29 - run%reversed .and. (ts_end == ts + 3 .or. ts_end == 29), 'a range of backward steps')
    run%reversed = run%reversed + ts_end - ts + 1
    on_backward_range = run%result
  end function

  integer(c_int32_t) function on_locate(user, type, ts, fields, nfields) bind(c)
    type(c_ptr), value :: user
    integer(c_int32_t), value :: type, ts, nfields
    type(gpuzip_field_t), intent(inout) :: fields(*)
    type(run_t), pointer :: run
    call c_f_pointer(user, run)
    call expect(nfields == 1 .and. fields(1)%n1 == 4, 'the fields to be located')
    if (type == gpuzip_action_restore) run%u(:, run%now) = -1
    fields(1)%data = c_loc(run%u(1, run%now))
    run%ts = ts
    on_locate = gpuzip_ok
  end function

  integer(c_int32_t) function on_observe(user, type, ts, flags) bind(c)
    type(c_ptr), value :: user
    integer(c_int32_t), value :: type, ts, flags
    type(run_t), pointer :: run
    call c_f_pointer(user, run)
    call expect(run%ts == ts .and. flags >= 0, 'what is observed')
    if (type == gpuzip_action_restore) run%restored = run%restored + 1
    on_observe = gpuzip_ok
  end function
end module
