#include "job.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "model.h"
#include "snapshots.h"

static size_t or_default(size_t value, size_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* Sets the dimensions of the model (before extrusion) and the grid of the run. */
static int make_grid(job_t *job, const options_t *o, size_t *n3_of_model)
{
    const size_t n1 = or_default(o->n1, 64), n2 = or_default(o->n2, 48);
    const size_t n3 = or_default(o->n3, o->model != NULL || o->extrude != 0 ? 1 : 96);
    const size_t along = o->extrude != 0 ? o->extrude : n3;

    if (o->model != NULL && (o->n1 == 0 || o->n2 == 0))
        return complain("--model %s: give its dimensions with --n1 (depth), --n2 and, in 3-D, --n3",
                        o->model);
    if (o->extrude != 0 && n3 != 1)
        return complain("--extrude %zu: the model is 3-D already; use it with --n3 1", o->extrude);
    *n3_of_model = n3;
    if (grid_init(&job->grid, n1, n2, along, or_default(o->border, along > 1 ? 16 : 24),
                  o->dx > 0 ? o->dx : 25.0) != 0)
        return complain("--n1 %zu --n2 %zu --n3 %zu: more cells than memory can address; use fewer",
                        n1, n2, along);
    return 0;
}

static float *load(const char *path, const options_t *o, const grid_t *g, size_t n3)
{
    float *v = path != NULL ? model_load(path, g->n1, g->n2, n3) : model_salt(g->n1, g->n2, n3);
    if (v != NULL && o->extrude != 0) {
        float *extruded = model_extrude(v, g->n1, g->n2, g->n3);
        free(v);
        v = extruded;
    }
    return v;
}

/* Makes the true and the smooth model and finds the range of velocities in both. */
static int make_models(job_t *job, const options_t *o, size_t n3, double *vmin, double *vmax)
{
    const grid_t *g = &job->grid;
    const size_t cells = g->n1 * g->n2 * g->n3;
    double lo, hi;

    job->model = load(o->model, o, g, n3);
    if (job->model == NULL || model_range(job->model, cells, job->name, vmin, vmax) != 0)
        return -1;
    job->smooth = o->init != NULL ? load(o->init, o, g, n3)
                                  : model_smooth(job->model, g->n1, g->n2, g->n3,
                                                 o->smooth > 0 ? o->smooth : 3.0);
    if (job->smooth == NULL ||
        model_range(job->smooth, cells, o->init != NULL ? o->init : "smooth model", &lo, &hi) != 0)
        return -1;
    *vmin = fmin(*vmin, lo);
    *vmax = fmax(*vmax, hi);
    return 0;
}

/* Rounds x down to three significant digits, so that a user can type the printed number again. */
static double three_digits(double x)
{
    const double unit = pow(10.0, floor(log10(x)) - 2.0);
    return floor(x / unit) * unit;
}

/* Steps for the way to the bottom and back, sideways by at most the depth, plus the length of
 * the wavelet. */
static double default_steps(const job_t *job)
{
    const grid_t *g = &job->grid;
    const double depth = (double)g->n1, half = (double)(g->n3 >= g->n2 ? g->n3 : g->n2) / 2.0;
    const double path = 2.0 * hypot(depth, fmin(half, depth)) * g->dx;
    const double speed = model_mean(job->smooth, g->n1 * g->n2 * g->n3);
    return ceil((path / speed + 2.4 / job->freq) / job->dt);
}

/* The highest frequency of a Ricker wavelet, over its peak frequency: above it, amplitudes are
 * below 4 % of the largest. */
#define HIGHEST 2.5

/* The product of two fields has twice their highest frequency. */
static void check_sampling(const job_t *job)
{
    const double limit = 1.0 / (2.0 * HIGHEST * job->freq), interval = (double)job->every * job->dt;

    if (job->every > 1 && interval > limit)
        warn("--every %zu: a state in %.3g s is too few for waves of up to %.3g Hz, so the image has artefacts; use at "
             "most %.0f", job->every, interval, HIGHEST * job->freq, fmax(1.0, floor(limit / job->dt)));
}

static int make_times(job_t *job, const options_t *o, double vmin, double vmax)
{
    const double limit = stable_dt(grid_dims(&job->grid), job->grid.dx, vmax);
    const double wavelength = vmin / job->grid.dx;  /* in cells, times the frequency */

    job->dt = o->dt > 0 ? o->dt : three_digits(0.9 * limit);
    if (job->dt > limit)
        return complain("--dt %g: unstable; at %g m/s and a spacing of %g m the largest stable "
                        "time step is %.6g s", job->dt, vmax, job->grid.dx, three_digits(limit));
    job->vmin = vmin;
    job->freq = o->freq > 0 ? o->freq : three_digits(wavelength / 8.0);
    if (wavelength / job->freq < 5.0)
        warn("--freq %g: only %.1f points per wavelength at %g m/s, so waves disperse; "
             "use at most %.3g Hz or a smaller --dx",
             job->freq, wavelength / job->freq, vmin, wavelength / 5.0);
    if (o->steps == 0 && !(default_steps(job) <= INT32_MAX))
        return complain("%.3g time steps of %g s would be needed: give --steps or a larger --dt",
                        default_steps(job), job->dt);
    job->steps = o->steps != 0 ? o->steps : (size_t)default_steps(job);
    check_sampling(job);
    return 0;
}

/* Checks the options of workers. */
static int check_claim(const options_t *o, size_t shots)
{
    if (o->claim == NULL && (o->sum || o->no_wait || o->lease > 0.0 || o->only > 0))
        return complain("%s: is for workers; add --claim", o->sum ? "--sum" : o->no_wait ? "--no-wait" : o->only > 0 ? "--only" : "--lease");
    if (o->only > 0 && o->sum)
        return complain("--only %zu --sum: a shot, or the sum of all; leave one out", o->only);
    if (o->only > shots)
        return complain("--only %zu: the survey has %zu shots", o->only, shots);
    if (o->claim != NULL && (o->verify || o->taylor || o->dump != NULL || o->sweep))
        return complain("--claim %s %s: needs all shots in one process; leave one out", o->claim,
                        o->verify ? "--verify" : o->taylor ? "--taylor" : o->sweep ? "--sweep" : "--dump-snapshots");
    if (o->claim != NULL && o->tune)
        return complain("--claim %s --tune: every worker would plan by its own measurement; measure once, without --claim, with the key "
                        "profile_path set, and let the workers read that profile", o->claim);
    return 0;
}

/* States are computed backward one by one, with two time levels of their own, on the cells of the model. */
static int check_reconstruct(const options_t *o)
{
    if (o->gradient)
        return complain("--reconstruct --gradient: a gradient also sums over the sponge, where steps cannot be reversed; leave one out");
    if (o->every > 1)
        return complain("--reconstruct --every %zu: a state is computed from the next one, and needs the strips of all; leave one out", o->every);
    if (o->zero_copy)
        return complain("--reconstruct --zero-copy: strips are parts of a field, which are copied; leave one out");
    if (o->tune)
        return complain("--reconstruct --tune: there is one plan only, that keeps the strips of every state; leave one out");
    if (o->dump != NULL)
        return complain("--reconstruct --dump-snapshots %s: there is no image; leave one out", o->dump);
    return 0;
}

/* Sets up the tasks that replace a migration: dumps and sweeps. */
static int make_task(job_t *job, const options_t *o)
{
    const size_t cells = job->grid.n1 * job->grid.n2 * job->grid.n3;

    if (check_claim(o, job->shots) != 0)
        return -1;
    if (o->dump != NULL && o->verify)
        return complain("--dump-snapshots %s --verify: there is no image; leave one out", o->dump);
    if (o->dump != NULL && o->sweep)
        return complain("--dump-snapshots %s --sweep: one at a time; leave one out", o->dump);
    if (o->sweep && o->verify)
        return complain("--sweep --verify: a sweep compares images already; leave one out");
    if (o->tune && (o->dump != NULL || o->sweep))
        return complain("--tune %s: there is no migration to measure and plan; leave one out", o->sweep ? "--sweep" : "--dump-snapshots");
    if (o->codecs != NULL && !o->sweep)
        return complain("--codecs %s: these are settings of --sweep; one codec for a migration is the key "
                        "compressor of --config", o->codecs);
    if (o->restart != NULL && o->claim != NULL)
        return complain("--restart %s --claim %s: shots that are claimed need no restart files; leave one out", o->restart, o->claim);
    if (o->restart != NULL && (o->dump != NULL || o->sweep || o->taylor || o->tune))
        return complain("--restart %s %s: restart files are of a migration alone; leave one out", o->restart,
                        o->dump != NULL ? "--dump-snapshots" : o->sweep ? "--sweep" : o->taylor ? "--taylor" : "--tune");
    if (o->reconstruct && check_reconstruct(o) != 0)
        return -1;
    if (o->taylor && !o->gradient)
        return complain("--taylor: tests a gradient; add --gradient");
    if (o->taylor && memcmp(job->model, job->smooth, cells * sizeof *job->model) == 0)
        return complain("--taylor: the smooth model is the true one, so there is no direction to test; give another --init");
    if (o->gradient && (o->dump != NULL || o->sweep))
        return complain("--gradient %s: one at a time; leave one out", o->sweep ? "--sweep" : "--dump-snapshots");
    if (job->every > 1 && o->gradient)
        return complain("--every %zu --gradient: the gradient of this misfit needs every state; leave one out", job->every);
    if (job->every > 1 && o->dump != NULL)
        return complain("--every %zu --dump-snapshots %s: there is no image; leave one out", job->every, o->dump);
    if (o->dump != NULL && (job->dump = snapshots_list(o->dump, job->steps, &job->dumps)) == NULL)
        return -1;
    if (o->sweep && (job->setting = setting_list(o->codecs != NULL ? o->codecs : SETTING_DEFAULTS,
                                                 &job->settings)) == NULL)
        return -1;
    return 0;
}

int job_prepare(job_t *job, const options_t *o)
{
    size_t n3 = 0;
    double vmin = 0.0, vmax = 0.0;

    *job = (job_t){.name = o->model != NULL ? o->model : "built-in salt dome",
                   .config = o->config, .restart = o->restart, .out = o->out != NULL ? o->out : "rtm3d-out",
                   .shots = or_default(o->shots, o->sweep ? 1 : 8), .every = or_default(o->every, 1), .verify = o->verify, .json = o->json,
                   .gradient = o->gradient, .taylor = o->taylor, .tune = o->tune, .zero_copy = o->zero_copy, .reconstruct = o->reconstruct,
                   .claim = o->claim, .lease = o->lease > 0.0 ? o->lease : 120.0, .only = o->only, .sum = o->sum, .no_wait = o->no_wait};
    if (make_grid(job, o, &n3) == 0 && make_models(job, o, n3, &vmin, &vmax) == 0 &&
        make_times(job, o, vmin, vmax) == 0 && make_task(job, o) == 0)
        return 0;
    job_free(job);
    return -1;
}

void job_free(job_t *job)
{
    free(job->model);
    free(job->smooth);
    free(job->dump);
    free(job->setting);
    job->model = job->smooth = NULL;
    job->dump = NULL;
    job->setting = NULL;
}
