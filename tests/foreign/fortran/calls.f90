! Calls every procedure of module gpuzip at least once, and checks from the results that the
! arguments arrived. Prints "ok", or stops.
module calls_of
  use gpuzip
  use calls_support
  use, intrinsic :: iso_c_binding
  implicit none
  type(gpuzip_config_t) :: config
  type(gpuzip_t) :: session
  type(gpuzip_schedule_t) :: schedule
  type(gpuzip_action_t) :: action
  type(gpuzip_stats_t) :: stats
  type(gpuzip_summary_t) :: summary
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
    call gpuzip_set_log_level(9, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_config, 'log_level = 9')
    call gpuzip_set_log_callback(on_line, c_loc(mark))
    call gpuzip_set_log_level(0)
    call gpuzip_config_init(config)
    config%log_level = 0
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

  ! Tests two sessions on one schedule, and a trace file whose path is a Fortran string.
  subroutine schedules
    type(gpuzip_schedule_t) :: same
    type(gpuzip_t) :: one, other
    real(c_double), target :: u(2), v(2)
    character(1000) :: path
    character(kind=c_char), allocatable, target :: buffer(:)
    integer :: unit, ts = 0
    call gpuzip_config_init(config)
    call get_command_argument(2, path)
    open (newunit=unit, file=path, action='write', status='replace')
    write (unit, '(a)') '0 SAVE', '1 FORWARD', '1 BACKWARD', '0 RESTORE', '0 BACKWARD', '0 TERMINATE'
    close (unit)
    config%checkpointing_algorithm = gpuzip_algorithm_trace
    config%trace_file_path = gpuzip_to_c(path, buffer)
    call gpuzip_schedule_create(config, 2, schedule)
    call gpuzip_attach(schedule, config, [gpuzip_field(u)], one)
    call gpuzip_attach(schedule, config, [gpuzip_field(v)], other)
    call gpuzip_get_schedule(other, same)
    call gpuzip_schedule_summary(same, summary)
    call expect(summary%steps == 2 .and. summary%saves == 1 .and. summary%actions == 6, 'the summary of a trace')
    do
      call gpuzip_schedule_get_action(same, action)
      call gpuzip_dispatch(one, action%it)
      call gpuzip_dispatch(other, action%it)
      select case (action%type)
      case (gpuzip_action_forward)
        ts = ts + 1
      case (gpuzip_action_save)
        u = 1.5
        v = 2.5
        call gpuzip_save(one, action%ts, u)
        call gpuzip_save(other, action%ts, v)
      case (gpuzip_action_restore)
        u = 0
        v = 0
        ts = action%ts
        call gpuzip_retrieve(one, action%ts, u)
        call gpuzip_retrieve(other, action%ts, v)
      case (gpuzip_action_backward)
        call expect(ts == action%ts .and. all(u == 1.5) .and. all(v == 2.5), 'the states of two sessions')
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    call gpuzip_schedule_rewind(schedule)
    call gpuzip_setup(one)
    call gpuzip_finalize(one)
    call gpuzip_finalize(other)
    call gpuzip_schedule_release(same)
    call gpuzip_schedule_release(schedule)
  end subroutine

  ! Writes restart files within a shot, and goes on from them with another session.
  subroutine restart
    type(gpuzip_generation_t) :: found
    real(c_double), target :: u(4, 2), total(3)
    character(5) :: names(2) = ['total', 'u    ']
    character(1000, c_char), target :: folder
    integer(c_int32_t) :: due
    real(c_double) :: left
    config = revolve(3)
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
    call gpuzip_persist_stage_register(session, 'told', 0_c_int32_t, told, c_loc(mark))
    call gpuzip_persist_find(session, found)
    call expect(found%generation == 0 .and. found%it == -1, 'no restart files')
    call gpuzip_get_action(session, action)
    call gpuzip_save(session, action%ts, u)
    call exported(folder(:index(folder, c_null_char) - 1) // '/states', u)
    u = 5
    call gpuzip_persist_due(session, due)
    call expect(due == gpuzip_due_yes, 'restart files are due')
    call gpuzip_persist_write(session, 4_c_int64_t, names, [gpuzip_field(total), gpuzip_field(u)], [0, 1])
    call gpuzip_persist_wait(session)
    call expect(told_shot == 4, 'the generation that is told')
    call gpuzip_persist_clone(session, folder(:index(folder, c_null_char) - 1) // '/kept')
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
    call gpuzip_persist_check(trim(folder(:index(folder, c_null_char) - 1)) // '/gpuzip-r000000-g000000000001.gen')
    call gpuzip_persist_check(trim(folder(:index(folder, c_null_char) - 1)) // '/gpuzip-r000000-g000000000009.gen', stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_io, 'No such file')
    call gpuzip_persist_whole(trim(folder(:index(folder, c_null_char) - 1)) // '/gpuzip-r000000-g000000000001.gen')
    call parity_of_blocks
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

  ! Writes a state as a file of NumPy, and reads its values behind the header.
  subroutine exported(dir, u)
    character(*), intent(in) :: dir
    real(c_double), intent(in), target :: u(:, :)
    real(c_double) :: found(size(u, 1), size(u, 2))
    character(128) :: header
    integer :: unit
    call gpuzip_export(session, dir // '  ', 4, [gpuzip_field(u)])
    open(newunit=unit, file=dir // '/field0-000000004.npy', access='stream', form='unformatted', status='old')
    read(unit) header, found
    close(unit)
    call expect(index(header, "'<f8', 'fortran_order': False, 'shape': (2, 4), }") > 0, 'the header of an exported state')
    call expect(all(found == u), 'the values of an exported state')
    call gpuzip_export(session, dir, -1, [gpuzip_field(u)], stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'ts = -1')
    call gpuzip_export(session, dir, 5, [gpuzip_field(u(::2, :))], stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'gpuzip_export: field 1 is a strided section')
  end subroutine

  ! Two blocks of data and one of parity; the first is lost and computed again.
  subroutine parity_of_blocks
    character(9), target :: blocks(3)
    type(c_ptr) :: places(3)
    blocks = ['123456789', 'abcdefghi', '         ']
    places = [c_loc(blocks(1)), c_loc(blocks(2)), c_loc(blocks(3))]
    call gpuzip_persist_parity(places, [.true., .true., .false.], 1, 9_c_int64_t)
    call expect(ichar(blocks(3)(9:9)) == ieor(ichar('9'), ichar('i')), 'parity is the XOR')
    blocks(1) = ''
    call gpuzip_persist_parity(places, [.false., .true., .true.], 1, 9_c_int64_t)
    call expect(blocks(1) == '123456789', 'the lost block')
    call gpuzip_persist_parity(places, [.false., .true., .false.], 1, 9_c_int64_t, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, '1 of 3 blocks')
    call gpuzip_persist_parity(places, [.true.], 1, 9_c_int64_t, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'for every block')
    call expect(gpuzip_persist_checksum(0_c_int32_t, places(1), 9_c_int64_t) == -486108541, 'CRC32C')
  end subroutine

  subroutine sessions
    type(gpuzip_summary_t) :: before
    real(c_float), target :: curr(5, 4), prev(5, 4)
    integer(c_int64_t) :: fingerprints(2) = 0
    integer :: recomputed = 0, reversed = 0
    config = revolve(3, 2)
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
    call gpuzip_get_schedule(session, schedule)
    action%it = 7
    call gpuzip_schedule_peek_action(schedule, action)
    call expect(action%it == 0, 'the next action of the schedule')
    call gpuzip_agree(session, on_least, c_loc(reductions))
    call expect(reductions == 5, 'reductions of an agreement')
    call gpuzip_fingerprint(session, fingerprints(1))
    call gpuzip_schedule_fingerprint(schedule, fingerprints(2))
    call expect(fingerprints(1) == fingerprints(2) .and. fingerprints(1) /= 0_c_int64_t, 'fingerprints')
    call gpuzip_schedule_release(schedule)
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
    real(c_float), target :: u(5, 4)
    integer :: last, reversed
    logical :: open
    config = revolve(3, 2)
    config%checkpointing_algorithm = gpuzip_algorithm_online
    call gpuzip_init(config, 0, [gpuzip_field(u)], session)
    do last = 10, 30, 10
      call gpuzip_setup(session)
      call gpuzip_summary(session, summary)
      call expect(summary%steps == 0 .and. summary%snapshots == 3, 'a number of steps that is unknown')
      u = 0
      reversed = last + 1
      open = .true.
      do while (next(session, action, gpuzip_field(u)))
        if (action%type == gpuzip_action_forward) then
          u = u + 1
          if (open .and. action%ts == last) call gpuzip_end_forward(session)
          if (action%ts == last) open = .false.
        else if (action%type == gpuzip_action_backward) then
          reversed = reversed - 1
          call expect(action%ts == reversed .and. all(u == reversed), 'a state of a shot without a number of steps')
        end if
      end do
      call gpuzip_summary(session, summary)
      call expect(reversed == 0 .and. summary%steps == last + 1, 'the number of steps')
    end do
    call gpuzip_end_forward(session, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'gpuzip_end_forward')
    call gpuzip_finalize(session)
  end subroutine

  subroutine runs
    type(gpuzip_callbacks_t) :: callbacks
    type(gpuzip_field_t) :: fields(1)
    type(run_t), target :: run
    integer :: ranges
    config = revolve(4)
    do ranges = 0, 1
      config%range_actions = ranges
      run = run_t()
      fields(1) = gpuzip_field(run%u(:, 1))
      callbacks = callbacks_of(run)
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
    type(gpuzip_callbacks_t) :: callbacks
    type(gpuzip_field_t) :: fields(1)
    type(run_t), target :: run
    config = revolve(3)
    config%adjoint_every = 4
    run = run_t()
    fields(1) = gpuzip_field(run%u(:, 1))
    callbacks = callbacks_of(run)
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
    call gpuzip_rewind(session, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'sweeps = 1')
    call gpuzip_name_fields(session, [character(2) :: 'u', 'v', 'w', 'x', 'y'], stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_shape, '5 fields')
    call gpuzip_finalize(session)
    config%sweeps = 2
    run = run_t()
    call gpuzip_init(config, 30, fields, session)
    call gpuzip_run_forward(session, callbacks, fields)
    call gpuzip_run_reverse(session, callbacks, fields)
    call gpuzip_rewind(session)
    run%reversed = 0
    call gpuzip_run_reverse(session, callbacks, fields)
    call gpuzip_stats(session, stats)
    call expect(stats%backward_steps == 60 .and. stats%forward_steps > 30, 'a second reverse sweep')
    call gpuzip_finalize(session)
  end subroutine

  subroutine errors
    real(c_double), target :: u(6, 4), v(4)
    character(10) :: short
    call gpuzip_config_init(config)
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
    do while (next(session, action, gpuzip_field(u)))
      if (action%type == gpuzip_action_forward) u = u + 1
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

  ! The error of the result is 0.8 of the bound.
  subroutine qualities
    type(gpuzip_config_t) :: run_config
    type(gpuzip_quality_t) :: quality
    type(gpuzip_quality_info_t) :: info
    character(kind=c_char), allocatable, target :: text(:)
    real(c_double), target :: x(10)
    real(c_double) :: sums(3, 1), maxima(2, 1)
    logical :: run
    integer :: i, shot
    call gpuzip_config_init(config)
    call gpuzip_quality_open(config, quality, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_config, 'quality is not set')
    config%compressor = gpuzip_compressor_dct
    config%quality = gpuzip_to_c('gradient:1e-3', text)
    call gpuzip_quality_open(config, quality)
    call gpuzip_quality_result(quality, [gpuzip_field(x)], stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_state, 'gpuzip_quality_next')
    do shot = 1, 2
      do
        call gpuzip_quality_next(quality, run_config, run)
        if (.not. run) exit
        x = [(1 + i, i = 1, 10)]
        if (run_config%compressor /= 0) x = x * (1 + 0.8d0 * run_config%error_bound)
        call expect(.not. c_associated(run_config%quality), 'a configuration for a session')
        if (shot == 1) then
          call gpuzip_quality_result(quality, [gpuzip_field(x)])
        else
          call gpuzip_quality_compare(quality, [gpuzip_field(x)], sums, maxima)
          call expect(sums(3, 1) == 10, 'the number of values')
          call gpuzip_quality_judge(quality, sums, maxima)
        end if
      end do
      if (shot == 1) call gpuzip_quality_check(quality)
    end do
    call gpuzip_quality_info(quality, info)
    call expect(info%shots == 2 .and. info%asked == 1d-3 .and. info%error_bound == run_config%error_bound, 'what was chosen')
    call expect(info%chosen_error < 1d-3 .and. info%chosen_error > 2.5d-4, 'the error of what was chosen')
    call gpuzip_quality_close(quality)
    call gpuzip_quality_close(quality, stat, errmsg)
    call refused(stat, errmsg, gpuzip_err_handle, 'gpuzip_quality_t')
  end subroutine

  subroutine codecs
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
    ! Codecs on device memory refuse memory of the host.
    config%compressor = gpuzip_compressor_fp16
    call gpuzip_codec_work(config, [gpuzip_field(u)], bytes)
    call expect(bytes > 0, 'work space of a codec')
    call gpuzip_codec_encode(config, [gpuzip_field(u)], c_loc(v), bytes, c_loc(v), bytes, c_loc(v), stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'host memory')
    call gpuzip_codec_decode(config, c_loc(v), bytes, [gpuzip_field(u)], c_loc(v), bytes, c_loc(v), stat=stat, errmsg=errmsg)
    call refused(stat, errmsg, gpuzip_err_argument, 'host memory')

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
  use calls_of_fields
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
  call qualities
  call codecs
  call restart
  print '(a)', 'ok'
end program
