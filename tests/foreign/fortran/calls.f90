! Calls every procedure of module gpuzip at least once, and checks from the results that the
! arguments arrived. Prints "ok", or stops.
module calls_support
  use gpuzip
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: lines = 0
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

  ! The same for restart files, which ask as often as they need.
  integer(c_int32_t) function alone(user, value) bind(c)
    type(c_ptr), value :: user
    integer(c_int64_t), intent(inout) :: value
    alone = merge(0_c_int32_t, 1_c_int32_t, c_associated(user) .and. abs(value) < huge(value))
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

module calls_of
  use calls_support
  implicit none
  character(300) :: errmsg
  integer :: stat

contains

  subroutine texts
    character(kind=c_char), allocatable, target :: buffer(:)
    call expect(gpuzip_from_c(gpuzip_to_c('two words  ', buffer)) == 'two words' .and. size(buffer) == 10, 'a C string')
    call expect(gpuzip_from_c(c_null_ptr) == '' .and. gpuzip_from_c(gpuzip_to_c('', buffer)) == '', 'empty C strings')
    call expect(gpuzip_status_string(gpuzip_ok) /= gpuzip_status_string(gpuzip_err_panic), 'names of status')
    call expect(scan(gpuzip_version(), '.') > 1 .and. verify(gpuzip_version(), '0123456789.') == 0, 'the version')
    call expect(gpuzip_abi_version() == 1, 'the version of the ABI')
    call expect(gpuzip_algorithm_name(gpuzip_algorithm_zcut) == 'zcut', 'the name of an algorithm')
    call expect(.not. c_associated(gpuzip_stream(0_c_intptr_t)) .and. transfer(gpuzip_stream(64_c_intptr_t), 0_c_intptr_t) == 64, &
                'streams')
  end subroutine

  subroutine logging
    type(gpuzip_config_t) :: config
    type(gpuzip_schedule_t) :: schedule
    call gpuzip_set_log_level(9, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_config, 'log_level = 9')
    call gpuzip_set_log_callback(on_line, c_loc(mark))
    call gpuzip_set_log_level(0)
    call gpuzip_config_init(config)
    config%log_level = 0
    config%range_actions = 0
    call gpuzip_schedule_create(config, 20, schedule)
    call gpuzip_schedule_release(schedule)
    call gpuzip_schedule_release(schedule, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_handle, 'gpuzip_schedule_release')
    call expect(lines > 0 .and. mark == 0 .and. index(last_line, 'gpuzip_schedule_release') > 0, 'a line for each error')
    call gpuzip_set_log_level(3)
    lines = 0
    call gpuzip_schedule_release(schedule, stat)
    call expect(lines == 0, 'no line at the level ERROR')
    call gpuzip_set_log_callback
  end subroutine

  subroutine configurations
    type(gpuzip_config_t) :: config, untouched
    character(1000) :: path
    integer :: unit
    call expect(config%struct_size == c_sizeof(config) .and. config%checkpointing_algorithm == 0, 'a new configuration')
    call gpuzip_config_init(config)
    call expect(config%checkpointing_algorithm == gpuzip_algorithm_auto .and. config%log_level == 2, 'the defaults')
    call get_command_argument(1, path)
    open (newunit=unit, file=path, action='write', status='replace')
    write (unit, '(a)') 'checkpointing_algorithm = trace', 'trace_file_path = a file', 'device_budget = 3K', 'error_bound = 0.25'
    close (unit)
    call gpuzip_config_load(config, path)
    call expect(config%checkpointing_algorithm == gpuzip_algorithm_trace .and. config%device_budget == 3072, 'what was loaded')
    call expect(config%error_bound == 0.25 .and. gpuzip_from_c(config%trace_file_path) == 'a file', 'what was loaded')
    call gpuzip_config_free(config)
    call expect(.not. c_associated(config%trace_file_path), 'what was freed')
    call gpuzip_config_load(config, '')
    call gpuzip_config_load(config)
    call gpuzip_config_load(untouched, '/no/such/file', stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_io, '/no/such/file')
  end subroutine

  subroutine descriptions
    real(c_double), target :: u(3, 4, 5, 6), one
    type(gpuzip_field_t) :: field
    field = gpuzip_field(u, role=1)
    call expect(all([field%n1, field%n2, field%n3] == [3, 4, 30]) .and. field%role == 1, 'rank 4')
    call expect(field%type == gpuzip_type_f64, 'its type')
    call expect(c_associated(field%data, c_loc(u)), 'its address')
    field = gpuzip_field(u(:, :, 2, 3))
    call expect(all([field%n1, field%n2, field%n3] == [3, 4, 1]) .and. c_associated(field%data, c_loc(u(1, 1, 2, 3))), 'a section')
    field = gpuzip_field(one)
    call expect(all([field%n1, field%n2, field%n3] == 1) .and. field%role == 0, 'a scalar')
    call sections(u)
    field = gpuzip_field(c_loc(u), gpuzip_type_f64, shape(u), role=2)
    call expect(all([field%n1, field%n2, field%n3] == [3, 4, 30]) .and. field%role == 2, 'an address and a shape')
    field = gpuzip_field(c_null_ptr, gpuzip_type_f32, [3000000000_c_int64_t])
    call expect(all([field%n1, field%n2, field%n3] == [3000000000_c_int64_t, 1_c_int64_t, 1_c_int64_t]), 'a long one')
  end subroutine

  ! Checks the fields made from array sections: pitches describe some, the others are refused.
  subroutine sections(u)
    real(c_double), target, intent(in) :: u(:, :, :, :)
    integer(c_int8_t), target :: bytes(7, 3)
    integer(c_int64_t), target :: words(3)
    complex(c_float_complex), target :: z(4, 2, 2)
    real(c_float), target :: nothing(0, 3)
    type(gpuzip_field_t) :: field
    integer :: i
    field = gpuzip_field(u(2:3, 2:4, 3, 1))
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == [2, 3, 1, 3, 0]), 'the pitch of rows')
    call expect(c_associated(field%data, c_loc(u(2, 2, 3, 1))), 'where a section begins')
    field = gpuzip_field(u(1:2, ::3, 2:5:2, 4))
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == [2, 2, 2, 9, 24]), 'the pitch of planes')
    field = gpuzip_field(u(:, 2, :, :))
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == [3, 5, 6, 12, 60]), 'rank 3 of rank 4')
    field = gpuzip_field(u(:, 2:3, :, :))
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == [3, 2, 30, 3, 12]), 'rank 4')
    field = gpuzip_field(u(:, :, 2:2, :))
    call expect(all([field%n1, field%n2, field%n3, field%pitch2, field%pitch3] == [3, 4, 6, 3, 60]), 'rank 4 with one plane')
    do i = 1, 4
      if (i == 1) field = gpuzip_field(u(::2, :, 1, 1))
      if (i == 2) field = gpuzip_field(u(2, :, 1, 1))
      if (i == 3) field = gpuzip_field(u(:, 4:1:-1, 1, 1))
      if (i == 4) field = gpuzip_field(u(:, :, 1:2, :))
      call expect(field%type == gpuzip_type_strided, 'a strided section')
    end do
    field = gpuzip_field(nothing(:, ::2))
    call expect(all([field%n1, field%n2, field%n3] == [0, 2, 1]), 'a section of nothing')
    field = gpuzip_field(bytes(2:4, :))
    call expect(all([field%n1, field%pitch2] == [3, 7]) .and. field%type == gpuzip_type_i8, 'bytes')
    field = gpuzip_field(words)
    call expect(all([field%n1, field%pitch2] == [3, 0]) .and. field%type == gpuzip_type_i64, 'words')
    field = gpuzip_field(z(2:3, 2:2, :))
    call expect(all([field%n1, field%n2, field%n3, field%pitch3] == [2, 1, 2, 8]), 'complex')
    call expect(field%type == gpuzip_type_complex_f32, 'the type of complex')
  end subroutine

  ! Tests a session on a section with a halo of 4 cells and an integer array: the halo does not
  ! change, and the values inside come back.
  subroutine halos
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_summary_t) :: summary
    real(c_float), target :: u(-3:9, -3:8)
    integer(c_int16_t), target :: n(3)
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 3
    config%range_actions = 0
    call gpuzip_init(config, 12, [gpuzip_field(u(1:5, 1:4)), gpuzip_field(n)], session)
    call gpuzip_summary(session, summary)
    call expect(summary%slot_bytes == 512, 'the bytes of a snapshot without halo')
    u = -1
    n = 0
    u(1:5, 1:4) = 100
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        u(1:5, 1:4) = 100 + action%ts
        n = int(action%ts, c_int16_t)
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, [gpuzip_field(u(1:5, 1:4)), gpuzip_field(n)])
      case (gpuzip_action_restore)
        u = -2
        call gpuzip_retrieve(session, action%ts, [gpuzip_field(u(1:5, 1:4)), gpuzip_field(n)])
        call expect(all(u(1:5, 1:4) == 100 + action%ts) .and. all(n == action%ts), 'what was saved')
        call expect(count(u == -2) == size(u) - 20, 'the halo')
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_finalize(session)
  end subroutine

  ! Tests two sessions on one schedule, and a trace file whose path is a Fortran string.
  subroutine schedules
    type(gpuzip_config_t) :: config
    type(gpuzip_schedule_t) :: schedule, same
    type(gpuzip_t) :: session(2)
    type(gpuzip_action_t) :: action
    type(gpuzip_summary_t) :: summary
    real(c_double), target :: u(2), v(2)
    character(1000) :: path
    character(kind=c_char), allocatable, target :: buffer(:)
    integer :: unit, i, ts = 0
    call gpuzip_config_init(config)
    call get_command_argument(2, path)
    open (newunit=unit, file=path, action='write', status='replace')
    write (unit, '(a)') '0 SAVE', '1 FORWARD', '1 BACKWARD', '0 RESTORE', '0 BACKWARD', '0 TERMINATE'
    close (unit)
    config%checkpointing_algorithm = gpuzip_algorithm_trace
    config%trace_file_path = gpuzip_to_c(path, buffer)
    config%range_actions = 0
    call gpuzip_schedule_create(config, 2, schedule)
    call gpuzip_attach(schedule, config, [gpuzip_field(u)], session(1))
    call gpuzip_attach(schedule, config, [gpuzip_field(v)], session(2))
    call gpuzip_get_schedule(session(2), same)
    call gpuzip_schedule_summary(same, summary)
    call expect(summary%steps == 2 .and. summary%saves == 1 .and. summary%actions == 6, 'the summary of a trace')
    do
      call gpuzip_schedule_get_action(same, action)
      do i = 1, 2
        call gpuzip_dispatch(session(i), action%it)
      end do
      select case (action%type)
      case (gpuzip_action_forward)
        ts = ts + 1
      case (gpuzip_action_save)
        u = 1.5
        v = 2.5
        call gpuzip_save(session(1), action%ts, u)
        call gpuzip_save(session(2), action%ts, v)
      case (gpuzip_action_restore)
        u = 0
        v = 0
        ts = action%ts
        call gpuzip_retrieve(session(1), action%ts, u)
        call gpuzip_retrieve(session(2), action%ts, v)
      case (gpuzip_action_backward)
        call expect(ts == action%ts .and. all(u == 1.5) .and. all(v == 2.5), 'the states of two sessions')
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_schedule_rewind(schedule)
    do i = 1, 2
      call gpuzip_setup(session(i))
      call gpuzip_finalize(session(i))
    end do
    call gpuzip_schedule_release(same)
    call gpuzip_schedule_release(schedule)
  end subroutine

  ! Writes restart files within a shot, and goes on from them with another session.
  subroutine restart
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_generation_t) :: found
    real(c_double), target :: u(4, 2), total(3)
    character(5) :: names(2) = ['total', 'u    ']
    character(1000, c_char), target :: folder
    integer(c_int32_t) :: due
    real(c_double) :: left
    integer :: stat
    character(200) :: errmsg
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 3
    call get_command_argument(1, folder)  ! a file of this test
    call execute_command_line('rm -rf "' // trim(folder) // '.restart"')
    folder = trim(folder) // '.restart' // c_null_char
    config%persist_dir = c_loc(folder)
    u = 1
    total = 7
    call gpuzip_init(config, 9, [gpuzip_field(u)], session)
    call gpuzip_persist_due(session, due, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'gpuzip_persist_open')
    call gpuzip_persist_open(session)
    call gpuzip_persist_find(session, found)
    call expect(found%generation == 0 .and. found%it == -1, 'no restart files')
    call gpuzip_get_action(session, action)
    call gpuzip_save(session, action%ts, u)
    u = 5
    call gpuzip_persist_due(session, due)
    call expect(due == gpuzip_due_yes, 'restart files are due')
    call gpuzip_persist_write(session, 4_c_int64_t, names, [gpuzip_field(total), gpuzip_field(u)], [0, 1])
    call gpuzip_persist_wait(session)
    call gpuzip_persist_write(session, 4_c_int64_t, names, [gpuzip_field(total)], [0, 1], stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'different sizes')
    call gpuzip_finalize(session)
    u = 0
    total = 0
    call gpuzip_init(config, 9, [gpuzip_field(u)], session)
    call gpuzip_persist_open(session, 0, 1, alone, c_loc(mark))
    call gpuzip_persist_find(session, found)
    call expect(found%generation == 1 .and. found%shot == 4 .and. found%it == 0, 'the restart files')
    call gpuzip_persist_read(session, names, [gpuzip_field(total), gpuzip_field(u)], [0, 1])
    call expect(all(u == 5) .and. all(total == 7), 'the arrays')
    call gpuzip_get_action(session, action)
    call expect(action%it == 1 .and. action%type == gpuzip_action_forward, 'the next action')
    call gpuzip_catch_signals()
    call gpuzip_catch_signals([23_c_int32_t])
    call gpuzip_catch_signals([9_c_int32_t], stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'signal 9')
    call expect(.not. gpuzip_stop_requested(), 'no request')
    call gpuzip_request_stop()
    call expect(gpuzip_stop_requested(left) .and. left > 0, 'a request')
    call gpuzip_get_action(session, action)
    call expect(gpuzip_has_flag(action, gpuzip_flag_interrupt), 'the flag')
    call gpuzip_persist_due(session, due)
    call expect(due == gpuzip_due_stop, 'a stop')
    call gpuzip_finalize(session)
  end subroutine

  subroutine sessions
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_stats_t) :: stats
    type(gpuzip_summary_t) :: summary, before
    real(c_float), target :: curr(5, 4), prev(5, 4)
    type(gpuzip_schedule_t) :: followed
    integer(c_int64_t) :: fingerprints(2) = 0
    integer :: recomputed = 0, reversed = 0
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 3
    config%cache_capacity = 2
    config%range_actions = 0
    call gpuzip_memory_required(config, 12, [gpuzip_field(curr), gpuzip_field(prev, role=1)], before)
    call gpuzip_init(config, 12, [gpuzip_field(curr), gpuzip_field(prev, role=1)], session)
    call gpuzip_summary(session, summary)
    call expect(summary%slot_bytes >= 160 .and. summary%slot_bytes == before%slot_bytes .and. summary%snapshots == 3, 'the summary')
    call gpuzip_setup_steps(session, 15)
    call gpuzip_summary(session, summary)
    call expect(summary%steps == 15 .and. summary%predicted_s >= summary%bound_s .and. summary%bound_s > 0, 'other steps')
    call gpuzip_setup_steps(session, 12)
    call gpuzip_profile_steps(session, [1.0_c_double, 2.0_c_double, 3.0_c_double], [1.0_c_double, 1.0_c_double, 1.0_c_double])
    call gpuzip_summary(session, summary)
    call expect(summary%predicted_s >= 33.0e-3_c_double, 'steps with times of their own')
    call gpuzip_profile_steps(session, [1.0_c_double], [1.0_c_double, 1.0_c_double], stat)
    call expect(stat == gpuzip_err_argument, 'arrays of different sizes')
    call gpuzip_summary(session, summary)
    call gpuzip_peek_action(session, action)
    call expect(action%type == gpuzip_action_save .and. action%it == 0, 'the next action')
    call gpuzip_get_schedule(session, followed)
    action%it = 7
    call gpuzip_schedule_peek_action(followed, action)
    call expect(action%it == 0, 'the next action of the schedule')
    call gpuzip_agree(session, on_least, c_loc(reductions))
    call expect(reductions == 5, 'reductions of an agreement')
    call gpuzip_fingerprint(session, fingerprints(1))
    call gpuzip_schedule_fingerprint(followed, fingerprints(2))
    call expect(fingerprints(1) == fingerprints(2) .and. fingerprints(1) /= 0_c_int64_t, 'fingerprints')
    call gpuzip_schedule_release(followed)
    curr = 0
    prev = -1
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        curr = curr + 1
        prev = prev + 1
        if (gpuzip_has_flag(action, gpuzip_flag_recompute)) recomputed = recomputed + 1
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, curr, prev)
      case (gpuzip_action_restore)
        curr = 77
        call gpuzip_retrieve(session, action%ts, curr, prev)
      case (gpuzip_action_backward)
        call expect(all(curr == action%ts) .and. all(prev == action%ts - 1), 'a pair of time levels')
        call expect(gpuzip_has_flag(action, gpuzip_flag_first_backward) .eqv. action%ts == 11, 'a flag')
        reversed = reversed + 1
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_synchronize(session)
    call gpuzip_stats(session, stats)
    call expect(reversed == 12 .and. stats%backward_steps == 12 .and. stats%forward_steps == summary%forward_steps, 'the counts')
    call expect(recomputed == stats%forward_steps - 11 .and. stats%raw_bytes == 160 * stats%saves, 'the counts')
    call gpuzip_finalize(session)
    call gpuzip_finalize(session, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_handle, 'gpuzip_finalize')
  end subroutine

  ! Tests shots whose number of steps is unknown until gpuzip_end_forward.
  subroutine unknown_steps
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_summary_t) :: summary
    real(c_float), target :: u(5, 4)
    integer :: last, reversed
    logical :: open
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_online
    config%checkpointing_snaps = 3
    config%cache_capacity = 2
    call gpuzip_init(config, 0, [gpuzip_field(u)], session)
    do last = 10, 30, 10
      call gpuzip_setup(session)
      call gpuzip_summary(session, summary)
      call expect(summary%steps == 0 .and. summary%snapshots == 3, 'a number of steps that is unknown')
      u = 0
      reversed = last + 1
      open = .true.
      do
        call gpuzip_get_action(session, action)
        select case (action%type)
        case (gpuzip_action_forward)
          u = u + 1
          if (open .and. action%ts == last) then
            call gpuzip_end_forward(session)
            open = .false.
          end if
        case (gpuzip_action_save)
          call gpuzip_save(session, action%ts, u)
        case (gpuzip_action_restore)
          call gpuzip_retrieve(session, action%ts, u)
        case (gpuzip_action_backward)
          reversed = reversed - 1
          call expect(action%ts == reversed .and. all(u == reversed), 'a state of a shot without a number of steps')
        case (gpuzip_action_terminate)
          exit
        end select
      end do
      call gpuzip_summary(session, summary)
      call expect(reversed == 0 .and. summary%steps == last + 1, 'the number of steps')
    end do
    call gpuzip_end_forward(session, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'gpuzip_end_forward')
    call gpuzip_finalize(session)
  end subroutine

  ! Tests fields of both kinds and all ranks: a state of ten fields, then ten states of one field
  ! each.
  subroutine every_kind_and_rank
    real(c_float), target :: a0, a1(2), a2(2, 3), a3(2, 3, 4), a4(2, 3, 4, 5)
    real(c_double), target :: b0, b1(2), b2(2, 3), b3(2, 3, 4), b4(2, 3, 4, 5)
    type(gpuzip_field_t) :: fields(10)
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    integer :: i
    fields = [gpuzip_field(a0), gpuzip_field(a1), gpuzip_field(a2), gpuzip_field(a3), gpuzip_field(a4), &
              gpuzip_field(b0), gpuzip_field(b1), gpuzip_field(b2), gpuzip_field(b3), gpuzip_field(b4)]
    do i = 0, 10
      call set(1)
      if (i == 0) then
        call begin(fields)
      else
        call begin(fields(i:i))
      end if
      do
        call gpuzip_get_action(session, action)
        if (action%type == gpuzip_action_save) call transfer_state(.true.)
        if (action%type == gpuzip_action_restore) then
          call set(0)
          call transfer_state(.false.)
          exit
        end if
      end do
      call gpuzip_finalize(session)
      call expect(sum_of_all() == merge(306, values_of(fields(max(i, 1))), i == 0), 'the fields that were restored, and no other')
    end do

  contains

    subroutine set(to)
      integer, intent(in) :: to
      a0 = real(to); a1 = real(to); a2 = real(to); a3 = real(to); a4 = real(to)
      b0 = to; b1 = to; b2 = to; b3 = to; b4 = to
    end subroutine

    integer function sum_of_all()
      sum_of_all = nint(a0 + sum(a1) + sum(a2) + sum(a3) + sum(a4)) + nint(b0 + sum(b1) + sum(b2) + sum(b3) + sum(b4))
    end function

    integer function values_of(field)
      type(gpuzip_field_t), intent(in) :: field
      values_of = int(field%n1 * field%n2 * field%n3)
    end function

    subroutine begin(of)
      type(gpuzip_field_t), intent(in) :: of(:)
      type(gpuzip_config_t) :: config
      call gpuzip_config_init(config)
      config%checkpointing_algorithm = gpuzip_algorithm_revolve
      config%checkpointing_snaps = 1
      config%range_actions = 0
      call gpuzip_init(config, 2, of, session)
    end subroutine

    subroutine transfer_state(save)
      logical, intent(in) :: save
      select case (i)
      case (0)
        if (save) call gpuzip_save(session, action%ts, fields)
        if (.not. save) call gpuzip_retrieve(session, action%ts, fields)
      case (1)
        if (save) call gpuzip_save(session, action%ts, a0)
        if (.not. save) call gpuzip_retrieve(session, action%ts, a0)
      case (2)
        if (save) call gpuzip_save(session, action%ts, a1)
        if (.not. save) call gpuzip_retrieve(session, action%ts, a1)
      case (3)
        if (save) call gpuzip_save(session, action%ts, a2)
        if (.not. save) call gpuzip_retrieve(session, action%ts, a2)
      case (4)
        if (save) call gpuzip_save(session, action%ts, a3)
        if (.not. save) call gpuzip_retrieve(session, action%ts, a3)
      case (5)
        if (save) call gpuzip_save(session, action%ts, a4)
        if (.not. save) call gpuzip_retrieve(session, action%ts, a4)
      case (6)
        if (save) call gpuzip_save(session, action%ts, b0)
        if (.not. save) call gpuzip_retrieve(session, action%ts, b0)
      case (7)
        if (save) call gpuzip_save(session, action%ts, b1)
        if (.not. save) call gpuzip_retrieve(session, action%ts, b1)
      case (8)
        if (save) call gpuzip_save(session, action%ts, b2)
        if (.not. save) call gpuzip_retrieve(session, action%ts, b2)
      case (9)
        if (save) call gpuzip_save(session, action%ts, b3)
        if (.not. save) call gpuzip_retrieve(session, action%ts, b3)
      case (10)
        if (save) call gpuzip_save(session, action%ts, b4)
        if (.not. save) call gpuzip_retrieve(session, action%ts, b4)
      end select
    end subroutine
  end subroutine

  ! Tests zero copy: the application computes in the slots of the device cache, through array
  ! pointers of every rank.
  subroutine zero_copy
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_field_t) :: fields(2)
    real(c_double), pointer :: u(:, :), flat(:), deep(:, :, :, :)
    real(c_float), pointer :: v
    integer :: reversed = 0
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 3
    config%cache_capacity = 4
    config%zero_copy = 1
    config%backend = 1
    config%range_actions = 0
    fields = [gpuzip_field(c_null_ptr, gpuzip_type_f64, [6, 2]), gpuzip_field(c_null_ptr, gpuzip_type_f32, [1])]
    call gpuzip_view(fields(1), u, stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_shape, 'no data')
    call gpuzip_init(config, 10, fields, session)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_save)
        call gpuzip_save_begin(session, action%ts, fields)
        call gpuzip_view(fields(1), u)
        call gpuzip_view(fields(2), v)
        u = 10 * action%ts
        v = real(-action%ts)
        call gpuzip_save_commit(session, action%ts)
      case (gpuzip_action_restore)
        call gpuzip_retrieve_acquire(session, action%ts, fields)
        call gpuzip_view(fields(1), u)
        call gpuzip_view(fields(1), deep, [3, 1, 2, 2])
        call gpuzip_view(fields(1), flat, [12])
        call gpuzip_view(fields(2), v)
        call expect(all(shape(u) == [6, 2]) .and. all(u == 10 * action%ts) .and. v == -action%ts, 'a state in the cache')
        call expect(associated(flat) .and. all(deep == 10 * action%ts) .and. size(flat) == 12, 'other shapes')
        call gpuzip_retrieve_release(session, action%ts)
        reversed = reversed + 1
        call gpuzip_view(fields(2), u, stat=stat, errmsg=errmsg)
        call refused(stat, errmsg, gpuzip_err_shape, 'type 0 and the pointer the type 1')
        call expect(.not. associated(u), 'no view')
        call gpuzip_view(fields(1), flat, stat=stat, errmsg=errmsg)
        call refused(stat, errmsg, gpuzip_err_shape, '6 x 2 x 1')
        call gpuzip_view(fields(1), deep, [3, 2, 2, 2], stat, errmsg)
        call refused(stat, errmsg, gpuzip_err_shape, '3 x 2 x 2 x 2')
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call expect(reversed > 0, 'restores')
    call gpuzip_finalize(session)
  end subroutine

  subroutine runs
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_callbacks_t) :: callbacks
    type(gpuzip_stats_t) :: stats
    type(gpuzip_field_t) :: fields(1)
    type(run_t), target :: run
    integer :: ranges
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 4
    do ranges = 0, 1
      config%range_actions = ranges
      run = run_t()
      fields(1) = gpuzip_field(run%u(:, 1))
      callbacks = gpuzip_callbacks_t(user=c_loc(run), forward=c_funloc(on_forward), backward=c_funloc(on_backward), &
                                     locate=c_funloc(on_locate), observe=c_funloc(on_observe))
      call gpuzip_init(config, 30, fields, session)
      call gpuzip_run_forward(session, callbacks, fields)
      call expect(run%ts == 29 .and. run%reversed == 0, 'the forward sweep')
      call gpuzip_run_reverse(session, callbacks, fields)
      call gpuzip_stats(session, stats)
      call expect(run%reversed == 30 .and. run%restored == stats%restores, 'the reverse sweep')
      call gpuzip_setup(session)
      run = run_t(result=7)
      call gpuzip_run_reverse(session, callbacks, fields, stat=stat, errmsg=errmsg)
      call refused(stat, errmsg, gpuzip_err_callback, '7')
      call expect(run%reversed == 1, 'nothing after a callback that failed')
      call gpuzip_run_reverse(session, callbacks, [gpuzip_field(run%u(::2, 1))], stat=stat, errmsg=errmsg)
      call refused(stat, errmsg, gpuzip_err_argument, 'gpuzip_run_reverse: field 1 is a strided section')
      call gpuzip_finalize(session)
    end do
  end subroutine

  subroutine macro_steps
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_callbacks_t) :: callbacks
    type(gpuzip_stats_t) :: stats
    type(gpuzip_field_t) :: fields(1)
    type(gpuzip_action_t) :: action
    type(run_t), target :: run
    call gpuzip_config_init(config)
    config%checkpointing_algorithm = gpuzip_algorithm_revolve
    config%checkpointing_snaps = 3
    config%adjoint_every = 4
    run = run_t()
    fields(1) = gpuzip_field(run%u(:, 1))
    callbacks = gpuzip_callbacks_t(user=c_loc(run), forward=c_funloc(on_forward), backward=c_funloc(on_backward), &
                                   locate=c_funloc(on_locate), observe=c_funloc(on_observe))
    call gpuzip_init(config, 30, fields, session)
    call gpuzip_run_forward(session, callbacks, fields)
    call expect(run%ts == 28 .and. run%reversed == 0, 'the forward sweep of macro-steps')
    call gpuzip_peek_action(session, action)
    call expect(action%type == gpuzip_action_backward .and. action%ts == 28 .and. action%ts_end == 29, 'a short range')
    call gpuzip_run_reverse(session, callbacks, fields, stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'callbacks->backward_range is NULL: with adjoint_every = 4')
    callbacks%backward_range = c_funloc(on_backward_range)
    call gpuzip_run_reverse(session, callbacks, fields)
    call gpuzip_stats(session, stats)
    call expect(run%reversed == 30 .and. stats%backward_steps == 30, 'the reverse sweep of macro-steps')
    call gpuzip_finalize(session)
  end subroutine

  subroutine errors
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    real(c_double), target :: u(6, 4), v(4)
    character(10) :: short
    call gpuzip_config_init(config)
    config%range_actions = 0
    errmsg = 'as it was'
    call gpuzip_init(config, 10, [gpuzip_field(u)], session, stat, errmsg)
    call expect(stat == gpuzip_ok .and. errmsg == 'as it was', 'success')
    call gpuzip_save(session, 0, u, stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'gpuzip_save')
    call gpuzip_get_action(session, action)
    call gpuzip_save(session, 0, u(::2, :), stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'gpuzip_save: field 1 is a strided section')
    call gpuzip_save(session, 0, [gpuzip_field(v), gpuzip_field(u(:, 4:1:-3))], stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'field 2 is a strided section')
    call gpuzip_save(session, 0, u(:, ::3), stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_shape, '[6, 2, 1]')
    call gpuzip_save(session, 0, v, stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_shape, '4')
    call gpuzip_save(session, 0, u, stat=stat, errmsg=short)
    call expect(stat == gpuzip_ok, 'after errors of order the right call may follow')
    call gpuzip_retrieve(session, 3, u, stat=stat, errmsg=short)
    call expect(stat == gpuzip_err_state .and. index(gpuzip_last_error(), short) == 1, 'a short text')
    call gpuzip_save(session, 0, u, stream=c_loc(u), stat=stat)
    call expect(stat < 0, 'a stream on the host backend')
    call gpuzip_finalize(session)
    call gpuzip_get_action(session, action, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_handle, 'gpuzip_get_action')
    config%policy = 5
    call gpuzip_init(config, 10, [gpuzip_field(u)], session, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_config, 'policy = 5')
  end subroutine

  subroutine profiles
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_profile_info_t) :: info
    real(c_float), target :: u(40, 30)
    integer(c_int8_t), allocatable, target :: profile(:), damaged(:)
    u = 0
    call gpuzip_config_init(config)
    config%backend = 1
    config%checkpointing_snaps = 4
    config%compressor = gpuzip_compressor_fp16
    call gpuzip_init(config, 20, [gpuzip_field(u)], session)
    call gpuzip_profile_export(session, profile, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'no profile')
    call expect(.not. allocated(profile), 'no profile')
    call gpuzip_autotune(session)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        u = u + 1
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, u)
      case (gpuzip_action_restore)
        call gpuzip_retrieve(session, action%ts, u)
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_profile_export(session, profile)
    call gpuzip_profile_info(profile, 0, info)
    call expect(info%backend == 1 .and. info%codecs == 1 .and. info%compressor == gpuzip_compressor_fp16 .and. &
                info%h2d_gbs > 0 .and. info%ratio > 1 .and. info%both_gbs == 0, 'what was measured')
    call gpuzip_profile_info(profile, 1, info)
    call expect(info%compressor == 0 .and. info%codecs == 1, 'beyond the last codec')
    call gpuzip_profile_import(session, profile)
    damaged = profile
    damaged(70) = ieor(damaged(70), 4_c_int8_t)
    call gpuzip_profile_import(session, damaged, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_stream, 'checksum')
    call gpuzip_finalize(session)
  end subroutine

  subroutine codecs
    type(gpuzip_config_t) :: config
    type(gpuzip_codec_info_t) :: info
    type(gpuzip_codec_plugin_t) :: plugin
    character(kind=c_char), allocatable, target :: name(:)
    real(c_float), target :: u(40, 30), v(40, 30)
    integer(c_int8_t), allocatable, target :: stream(:)
    integer(c_int64_t) :: bytes
    integer :: i, j
    do j = 1, 30
      u(:, j) = [(sin(0.1 * i + 0.2 * j), i = 1, 40)]
    end do
    call gpuzip_config_init(config)
    config%compressor = gpuzip_compressor_fp16
    call round_trip
    call expect(maxval(abs(u - v)) < 1e-3 .and. bytes < 4 * size(u), 'half precision')
    call gpuzip_codec_info(stream(:bytes), 0, info)
    call expect(info%arrays == 1 .and. info%compressor == gpuzip_compressor_fp16 .and. info%n2 == 30 .and. &
                info%stored_bytes <= bytes, 'what the stream says')
    call gpuzip_codec_info(stream(:bytes), 1, info, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, '1')
    call gpuzip_codec_compress(config, [gpuzip_field(u)], stream(:10), bytes, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, '10')
    plugin%name = gpuzip_to_c('sign', name)
    plugin%user = c_loc(mark)
    plugin%max_bytes = c_funloc(sign_bytes)
    plugin%compress = c_funloc(sign_compress)
    plugin%decompress = c_funloc(sign_decompress)
    call gpuzip_codec_register(plugin, config%compressor)
    config%error_bound = 0.9
    call round_trip
    call expect(config%compressor >= 64 .and. all(v == sign(1.0, u)), 'a codec of our own')

  contains

    subroutine round_trip
      call gpuzip_codec_bound(config, [gpuzip_field(u)], bytes)
      if (allocated(stream)) deallocate (stream)
      allocate (stream(bytes))
      call gpuzip_codec_compress(config, [gpuzip_field(u)], stream, bytes)
      v = 0
      call gpuzip_codec_decompress(stream(:bytes), [gpuzip_field(v)])
    end subroutine
  end subroutine
end module

program calls
  use calls_of
  implicit none
  call texts
  call logging
  call configurations
  call descriptions
  call halos
  call schedules
  call sessions
  call unknown_steps
  call every_kind_and_rank
  call zero_copy
  call runs
  call macro_steps
  call errors
  call profiles
  call codecs
  call restart
  print '(a)', 'ok'
end program
