! The part of calls.f90 that is about fields: their descriptions, all kinds and ranks, and views.
module calls_of_fields
  use gpuzip
  use calls_support
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: descriptions, halos, every_kind_and_rank, zero_copy
  type(gpuzip_config_t) :: config
  type(gpuzip_t) :: session
  type(gpuzip_action_t) :: action

contains

  subroutine descriptions
    real(c_double), target :: u(3, 4, 5, 6), one
    type(gpuzip_field_t) :: field
    field = gpuzip_field(u, role=1)
    call has(field, [3, 4, 30, 0, 0], 'rank 4')
    call expect(field%role == 1 .and. field%type == gpuzip_type_f64 .and. c_associated(field%data, c_loc(u)), 'its address')
    field = gpuzip_field(u(:, :, 2, 3))
    call has(field, [3, 4, 1, 0, 0], 'a section')
    call expect(c_associated(field%data, c_loc(u(1, 1, 2, 3))), 'where a section begins')
    field = gpuzip_field(one)
    call has(field, [1, 1, 1, 0, 0], 'a scalar')
    call expect(field%role == 0, 'the role of a scalar')
    call sections(u)
    field = gpuzip_field(c_loc(u), gpuzip_type_f64, shape(u), role=2)
    call has(field, [3, 4, 30, 0, 0], 'an address and a shape')
    call expect(field%role == 2, 'the role of an address')
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
    type(gpuzip_field_t) :: field, strided(4)
    field = gpuzip_field(u(2:3, 2:4, 3, 1))
    call has(field, [2, 3, 1, 3, 0], 'the pitch of rows')
    call expect(c_associated(field%data, c_loc(u(2, 2, 3, 1))), 'where a section begins')
    call has(gpuzip_field(u(1:2, ::3, 2:5:2, 4)), [2, 2, 2, 9, 24], 'the pitch of planes')
    call has(gpuzip_field(u(:, 2, :, :)), [3, 5, 6, 12, 60], 'rank 3 of rank 4')
    call has(gpuzip_field(u(:, 2:3, :, :)), [3, 2, 30, 3, 12], 'rank 4')
    call has(gpuzip_field(u(:, :, 2:2, :)), [3, 4, 6, 3, 60], 'rank 4 with one plane')
    strided = [gpuzip_field(u(::2, :, 1, 1)), gpuzip_field(u(2, :, 1, 1)), gpuzip_field(u(:, 4:1:-1, 1, 1)), &
               gpuzip_field(u(:, :, 1:2, :))]
    call expect(all(strided%type == gpuzip_type_strided), 'a strided section')
    call has(gpuzip_field(nothing(:, ::2)), [0, 2, 1, 0, 0], 'a section of nothing')
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
    real(c_float), target :: u(-3:9, -3:8)
    integer(c_int16_t), target :: n(3)
    type(gpuzip_summary_t) :: summary
    type(gpuzip_field_t) :: fields(2)
    config = revolve(3)
    fields = [gpuzip_field(u(1:5, 1:4)), gpuzip_field(n)]
    call gpuzip_init(config, 12, fields, session)
    call gpuzip_summary(session, summary)
    call expect(summary%slot_bytes == 512, 'the bytes of a snapshot without halo')
    u = -1
    n = 0
    u(1:5, 1:4) = 100
    do
      call gpuzip_get_action(session, action)
      if (action%type == gpuzip_action_terminate) exit
      if (action%type == gpuzip_action_forward) then
        u(1:5, 1:4) = 100 + action%ts
        n = int(action%ts, c_int16_t)
      else if (action%type == gpuzip_action_save) then
        call gpuzip_save(session, action%ts, fields)
      else if (action%type == gpuzip_action_restore) then
        u = -2
        call gpuzip_retrieve(session, action%ts, fields)
        call expect(all(u(1:5, 1:4) == 100 + action%ts) .and. all(n == action%ts), 'what was saved')
        call expect(count(u == -2) == size(u) - 20, 'the halo')
      end if
    end do
    call gpuzip_finalize(session)
  end subroutine

  ! Tests fields of both kinds and all ranks: a session of one field for each, and one of ten fields.
  ! The number of values that were restored shows that each call writes its own array and no other.
  subroutine every_kind_and_rank
    real(c_float), target :: a0, a1(2), a2(2, 3), a3(2, 3, 4), a4(2, 3, 4, 5)
    real(c_double), target :: b0, b1(2), b2(2, 3), b3(2, 3, 4), b4(2, 3, 4, 5)
    type(gpuzip_field_t) :: fields(10)
    type(gpuzip_t) :: all_fields, one(10)
    integer :: i
    fields = [gpuzip_field(a0), gpuzip_field(a1), gpuzip_field(a2), gpuzip_field(a3), gpuzip_field(a4), &
              gpuzip_field(b0), gpuzip_field(b1), gpuzip_field(b2), gpuzip_field(b3), gpuzip_field(b4)]
    call gpuzip_init(revolve(1), 2, fields, all_fields)
    call go_on(all_fields, gpuzip_action_save)
    do i = 1, 10
      call gpuzip_init(revolve(1), 2, fields(i:i), one(i))
      call go_on(one(i), gpuzip_action_save)
    end do
    call set(1)
    call gpuzip_save(all_fields, 0, fields)
    call gpuzip_save(one(1), 0, a0)
    call gpuzip_save(one(2), 0, a1)
    call gpuzip_save(one(3), 0, a2)
    call gpuzip_save(one(4), 0, a3)
    call gpuzip_save(one(5), 0, a4)
    call gpuzip_save(one(6), 0, b0)
    call gpuzip_save(one(7), 0, b1)
    call gpuzip_save(one(8), 0, b2)
    call gpuzip_save(one(9), 0, b3)
    call gpuzip_save(one(10), 0, b4)
    call set(0)
    call go_on(all_fields, gpuzip_action_restore)
    call gpuzip_retrieve(all_fields, 0, fields)
    call restored(306)
    do i = 1, 10
      call go_on(one(i), gpuzip_action_restore)
      if (i == 1) call gpuzip_retrieve(one(i), 0, a0)
      if (i == 2) call gpuzip_retrieve(one(i), 0, a1)
      if (i == 3) call gpuzip_retrieve(one(i), 0, a2)
      if (i == 4) call gpuzip_retrieve(one(i), 0, a3)
      if (i == 5) call gpuzip_retrieve(one(i), 0, a4)
      if (i == 6) call gpuzip_retrieve(one(i), 0, b0)
      if (i == 7) call gpuzip_retrieve(one(i), 0, b1)
      if (i == 8) call gpuzip_retrieve(one(i), 0, b2)
      if (i == 9) call gpuzip_retrieve(one(i), 0, b3)
      if (i == 10) call gpuzip_retrieve(one(i), 0, b4)
      call restored(int(fields(i)%n1 * fields(i)%n2 * fields(i)%n3))
      call gpuzip_finalize(one(i))
    end do
    call gpuzip_finalize(all_fields)

  contains

    subroutine set(to)
      integer, intent(in) :: to
      a0 = real(to); a1 = real(to); a2 = real(to); a3 = real(to); a4 = real(to)
      b0 = to; b1 = to; b2 = to; b3 = to; b4 = to
    end subroutine

    ! Checks the sum of all values, of which each is 1 if it was restored, and makes all of them 0.
    subroutine restored(values)
      integer, intent(in) :: values
      call expect(nint(a0 + sum(a1) + sum(a2) + sum(a3) + sum(a4)) + nint(b0 + sum(b1) + sum(b2) + sum(b3) + sum(b4)) == values, &
                  'the fields that were restored, and no other')
      call set(0)
    end subroutine

    subroutine go_on(with, until)
      type(gpuzip_t), intent(in) :: with
      integer(c_int32_t), intent(in) :: until
      do
        call gpuzip_get_action(with, action)
        if (action%type == until) exit
      end do
    end subroutine
  end subroutine

  ! Tests zero copy: the application computes in the slots of the device cache, through array
  ! pointers of every rank.
  subroutine zero_copy
    type(gpuzip_field_t) :: fields(2)
    real(c_double), pointer :: u(:, :), flat(:), deep(:, :, :, :)
    real(c_float), pointer :: v
    integer :: reversed = 0, stat
    character(300) :: errmsg
    config = revolve(3, 4)
    config%zero_copy = 1
    config%backend = 1
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
end module
