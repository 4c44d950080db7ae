/* Tests shots whose number of steps is not known before gpuzip_end_forward: every restored state byte by
 * byte, for many ends of the forward phase, several shots per session, and calls in the wrong phase.
 * everything.c has budgets, codecs, callbacks and several sessions. The program exits with 1 at the first failed check. With the
 * argument `few`, caches hold no snapshot, half of them or all: for tools under which programs are slow. */
#include "test.h"

enum { N = 37, MOST = 400 };

typedef struct {
  double u[N];
  int ts, last, reversed;
  uint64_t forward, saves, restores;
} app_t;

/* Whole numbers, which the codecs here keep exactly. */
static double value(int ts, int i) { return (double)((ts * 7 + i * 3) % 64); }

static void compute(app_t *a, int ts)
{
  for (int i = 0; i < N; i++) {
    CHECK(a->u[i] == value(ts - 1, i));
    a->u[i] = value(ts, i);
  }
  a->ts = ts;
}

static void check(const app_t *a, int ts)
{
  for (int i = 0; i < N; i++) CHECK(a->u[i] == value(ts, i));
}

static gpuzip_field_t values_of(app_t *a) { return field_of(a->u, N, GPUZIP_TYPE_F64); }

static gpuzip_config_t online(int snapshots, int cache)
{
  gpuzip_config_t config = config_of(GPUZIP_ALGORITHM_ONLINE, snapshots, cache);
  config.backend = 1, config.log_level = 3;
  return config;
}

static gpuzip_t *session(const gpuzip_config_t *config, app_t *a)
{
  const gpuzip_field_t f = values_of(a);
  gpuzip_t *h;
  WORKS(gpuzip_init(config, 0, &f, 1, &h));
  return h;
}

static void start(app_t *a, int last)
{
  for (int i = 0; i < N; i++) a->u[i] = value(0, i);
  a->ts = 0, a->last = last, a->reversed = last + 1;
  a->forward = a->saves = a->restores = 0;
}

/* One shot, whose forward phase ends at the state `last`: after its SAVE, if it has one, with
 * `after_save`; else after its FORWARD. */
static void shot(gpuzip_t *h, app_t *a, int last, int after_save)
{
  gpuzip_field_t f = values_of(a);
  gpuzip_action_t action, next;
  gpuzip_stats_t stats;
  gpuzip_summary_t summary;
  uint64_t fingerprint;
  int ended = 0;
  stats.struct_size = sizeof stats, summary.struct_size = sizeof summary;
  start(a, last);
  CHECK(gpuzip_setup(h) == GPUZIP_OK);
  CHECK(gpuzip_summary(h, &summary) == GPUZIP_OK && summary.steps == 0 && summary.forward_steps == 0);
  CHECK(summary.snapshots > 0 && summary.algorithm == GPUZIP_ALGORITHM_ONLINE);
  CHECK(gpuzip_fingerprint(h, &fingerprint) == GPUZIP_OK);
  FAILS(gpuzip_end_forward(h), GPUZIP_ERR_STATE, "before the first action");
  for (;;) {
    CHECK(gpuzip_peek_action(h, &next) == GPUZIP_OK);
    CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK);
    CHECK(next.type == action.type && next.ts == action.ts && next.it == action.it);
    if (action.type == GPUZIP_ACTION_FORWARD) {
      CHECK(ended || (action.ts_end == action.ts && action.ts <= last));
      CHECK(((action.flags & GPUZIP_FLAG_RECOMPUTE) != 0) == ended);
      for (int ts = action.ts; ts <= action.ts_end; ts++) compute(a, ts), a->forward++;
      CHECK(gpuzip_peek_action(h, &next) == GPUZIP_OK);
      CHECK((next.type == GPUZIP_ACTION_SAVE) == ((action.flags & GPUZIP_FLAG_NEXT_IS_SAVE) != 0));
      if (ended || a->ts < last || (after_save && next.type == GPUZIP_ACTION_SAVE)) continue;
    } else if (action.type == GPUZIP_ACTION_SAVE) {
      CHECK(a->ts == action.ts);
      FAILS(gpuzip_end_forward(h), GPUZIP_ERR_STATE, ended ? "" : "was not served");
      serve(h, &action, &f, 1);
      a->saves++;
      if (ended || action.ts < last) continue;
    } else if (action.type == GPUZIP_ACTION_RESTORE) {
      serve(h, &action, &f, 1);
      check(a, action.ts);
      a->ts = action.ts, a->restores++;
      continue;
    } else if (action.type == GPUZIP_ACTION_BACKWARD) {
      CHECK(ended && action.ts == --a->reversed && action.ts == a->ts);
      CHECK(((action.flags & GPUZIP_FLAG_FIRST_BACKWARD) != 0) == (action.ts == last));
      check(a, action.ts);
      continue;
    } else {
      break;
    }
    /* The last state is live. */
    CHECK(gpuzip_end_forward(h) == GPUZIP_OK);
    FAILS(gpuzip_end_forward(h), GPUZIP_ERR_STATE, "has ended already");
    CHECK(gpuzip_peek_action(h, &next) == GPUZIP_OK);
    CHECK(next.type == GPUZIP_ACTION_BACKWARD && next.ts == last && (next.flags & GPUZIP_FLAG_FIRST_BACKWARD));
    ended = 1;
  }
  CHECK(action.type == GPUZIP_ACTION_TERMINATE && a->reversed == 0);
  CHECK(gpuzip_summary(h, &summary) == GPUZIP_OK && summary.steps == last + 1);
  CHECK(gpuzip_stats(h, &stats) == GPUZIP_OK && stats.backward_steps == (uint64_t)last + 1);
  CHECK(stats.forward_steps == a->forward && summary.forward_steps == a->forward);
  CHECK(stats.saves == a->saves && summary.saves == a->saves);
  CHECK(stats.restores == a->restores && summary.restores == a->restores);
  CHECK(stats.h2d == summary.h2d && stats.hits == summary.hits && stats.misses == summary.misses);
  CHECK(stats.d2h == summary.d2h);
  FAILS(gpuzip_end_forward(h), GPUZIP_ERR_STATE, "has ended already");
}

static void shots(app_t *a, int few)
{
  const int ends[] = {0, 1, 2, 7, 30, 3, MOST - 1, 58, 5};
  for (int snapshots = 1; snapshots <= 9; snapshots += snapshots < 4 ? 1 : 2)
    for (int cache = 0; cache <= snapshots; cache += few ? (snapshots + 1) / 2 : 1)
      for (int ranges = 0; ranges < 2; ranges++) {
        gpuzip_config_t config = online(snapshots, cache);
        config.range_actions = ranges;
        gpuzip_t *h = session(&config, a);
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) shot(h, a, ends[i], ends[i] == 0 || (i + ranges) % 2);
        CHECK(gpuzip_finalize(h) == GPUZIP_OK);
      }
}

static void refused(app_t *a)
{
  gpuzip_config_t config = online(3, 1);
  gpuzip_field_t f = values_of(a);
  gpuzip_action_t action;
  gpuzip_t *h;
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  FAILS(gpuzip_init(&config, 0, &f, 1, &h), GPUZIP_ERR_ARGUMENT, "checkpointing_algorithm = 9 (online)");
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_AUTO;
  FAILS(gpuzip_init(&config, 0, &f, 1, &h), GPUZIP_ERR_ARGUMENT, "steps = 0");
  config = online(0, 1);
  FAILS(gpuzip_init(&config, 0, &f, 1, &h), GPUZIP_ERR_CONFIG, "online needs the number of snapshots");
  config = online(3, 1), config.policy = GPUZIP_POLICY_LRU;
  FAILS(gpuzip_init(&config, 0, &f, 1, &h), GPUZIP_ERR_UNSUPPORTED, "policy = 1");
  config = online(3, 1), config.snapshot_rule = 1;
  FAILS(gpuzip_init(&config, 0, &f, 1, &h), GPUZIP_ERR_CONFIG, "snapshot_rule = 1");
  config = online(3, 1);
  /* Online with a known number of steps runs like every other schedule. */
  CHECK(gpuzip_init(&config, 20, &f, 1, &h) == GPUZIP_OK);
  CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK && action.type == GPUZIP_ACTION_SAVE);
  CHECK(gpuzip_save(h, 0, &f, 1, NULL) == GPUZIP_OK);
  FAILS(gpuzip_end_forward(h), GPUZIP_ERR_STATE, "the number of steps is known, 20");
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  FAILS(gpuzip_end_forward(NULL), GPUZIP_ERR_ARGUMENT, "NULL");
}

int main(int argc, char **argv)
{
  static app_t a;
  shots(&a, argc > 1 && strcmp(argv[1], "few") == 0);
  refused(&a);
  puts("ok");
  return 0;
}
