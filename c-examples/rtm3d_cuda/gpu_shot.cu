#include "gpu_shot.h"

static float *upload(const float *from, size_t count)
{
    float *to = cuda_alloc(count);
    CUDA(cudaMemcpy(to, from, count * sizeof *to, cudaMemcpyHostToDevice));
    return to;
}

medium_t gpu_medium_open(const medium_t *host)
{
    const grid_t *g = &host->grid;
    medium_t m = *host;

    m.scale = upload(host->scale, g->points);
    m.damp1 = upload(host->damp1, g->e1);
    m.damp2 = upload(host->damp2, g->e2);
    m.damp3 = upload(host->damp3, g->e3);
    return m;
}

void gpu_medium_close(medium_t *m)
{
    for (float *array : {m->scale, m->damp1, m->damp2, m->damp3})
        CUDA(cudaFree(array));
}

wavefield_t gpu_wavefield_open(const grid_t *g)
{
    return wavefield_t{cuda_alloc(g->points), cuda_alloc(g->points)};
}

void gpu_wavefield_close(wavefield_t *w)
{
    CUDA(cudaFree(w->curr));
    CUDA(cudaFree(w->prev));
}

image_t gpu_image_open(const grid_t *g)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    return image_t{cells, cuda_alloc(cells), cuda_alloc(cells), 0, NULL};
}

void gpu_image_close(image_t *image)
{
    CUDA(cudaFree(image->correlation));
    CUDA(cudaFree(image->illumination));
}

void gpu_image_clear(const image_t *image, cudaStream_t stream)
{
    for (float *sum : {image->correlation, image->illumination})
        CUDA(cudaMemsetAsync(sum, 0, image->cells * sizeof *sum, stream));
}

void gpu_image_fetch(const image_t *image, image_t *to, cudaStream_t stream)
{
    const size_t bytes = image->cells * sizeof(float);

    CUDA(cudaMemcpyAsync(to->correlation, image->correlation, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaMemcpyAsync(to->illumination, image->illumination, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
}

void gpu_shot_open(gpu_shot_t *shot, const medium_t *truth, const medium_t *smooth, const survey_t *survey)
{
    const grid_t *g = &smooth->grid;
    const size_t bytes = survey->receivers * sizeof *shot->receiver;

    shot->survey = survey;
    shot->truth = gpu_medium_open(truth);
    shot->smooth = gpu_medium_open(smooth);
    shot->u = gpu_wavefield_open(g);
    shot->lambda = gpu_wavefield_open(g);
    if (survey->every > 1)
        shot->ahead = gpu_wavefield_open(g);
    shot->observed = cuda_alloc(survey->steps * survey->receivers);
    shot->synthetic = cuda_alloc(survey->steps * survey->receivers);
    CUDA(cudaMalloc(&shot->receiver, bytes));
    CUDA(cudaMemcpy(shot->receiver, survey->receiver, bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());  /* the shot's stream does not wait for work without a stream */
    CUDA(cudaStreamCreateWithFlags(&shot->stream, cudaStreamNonBlocking));
}

void gpu_shot_close(gpu_shot_t *shot)
{
    if (shot->survey == NULL)
        return;
    CUDA(cudaStreamSynchronize(shot->stream));
    CUDA(cudaStreamDestroy(shot->stream));
    CUDA(cudaFree(shot->receiver));
    CUDA(cudaFree(shot->synthetic));
    CUDA(cudaFree(shot->observed));
    gpu_wavefield_close(&shot->ahead);
    gpu_wavefield_close(&shot->lambda);
    gpu_wavefield_close(&shot->u);
    gpu_medium_close(&shot->smooth);
    gpu_medium_close(&shot->truth);
}

/* Enqueues the step to u(ts), in `next`, with its source, and records the data at ts in `data`,
 * unless it is NULL. */
static void step(gpu_shot_t *shot, const medium_t *medium, size_t ts, float *data, float *next)
{
    const survey_t *s = shot->survey;

    gpu_propagate_to(medium, &shot->u, next, shot->stream);
    gpu_inject(medium, shot->u.curr, shot->source, s->wavelet[ts - 1], shot->stream);
    if (data != NULL)
        gpu_record(shot->u.curr, shot->receiver, s->receivers, data + ts * s->receivers, shot->stream);
    if (shot->stepped != NULL)
        shot->stepped();
}

void gpu_shot_begin(gpu_shot_t *shot)
{
    const size_t bytes = shot->smooth.grid.points * sizeof(float);

    for (float *field : {shot->u.curr, shot->u.prev, shot->lambda.curr, shot->lambda.prev})
        CUDA(cudaMemsetAsync(field, 0, bytes, shot->stream));
}

void gpu_shot_observe(gpu_shot_t *shot, size_t number)
{
    shot->source = shot->survey->source[number];
    gpu_shot_begin(shot);
    for (size_t ts = 1; ts < shot->survey->steps; ts++)
        step(shot, &shot->truth, ts, shot->observed, shot->u.prev);
}

void gpu_shot_forward(gpu_shot_t *shot, size_t ts, int record)
{
    gpu_shot_forward_to(shot, ts, record, shot->u.prev);
}

void gpu_shot_forward_to(gpu_shot_t *shot, size_t ts, int record, float *next)
{
    step(shot, &shot->smooth, ts, record ? shot->synthetic : NULL, next);
}

void gpu_shot_record_rest(gpu_shot_t *shot, size_t ts)
{
    const size_t bytes = shot->smooth.grid.points * sizeof(float);
    const wavefield_t u = shot->u;

    if (ts + 1 >= shot->survey->steps)
        return;
    CUDA(cudaMemcpyAsync(shot->ahead.curr, u.curr, bytes, cudaMemcpyDeviceToDevice, shot->stream));
    CUDA(cudaMemcpyAsync(shot->ahead.prev, u.prev, bytes, cudaMemcpyDeviceToDevice, shot->stream));
    shot->u = shot->ahead;
    for (size_t next = ts + 1; next < shot->survey->steps; next++)
        gpu_shot_forward(shot, next, 1);
    shot->ahead = shot->u;  /* curr and prev may have changed places */
    shot->u = u;
}

/* Enqueues lambda(ts+1) -> lambda(ts). */
static void step_back(gpu_shot_t *shot, size_t ts)
{
    const survey_t *s = shot->survey;
    const size_t at = (ts + 1) * s->receivers;

    gpu_propagate(&shot->smooth, &shot->lambda, shot->stream);
    if (ts + 1 < s->steps)
        gpu_inject_residual(&shot->smooth, shot->lambda.curr, shot->receiver, s->receivers,
                            shot->observed + at, shot->synthetic + at, shot->stream);
    if (shot->stepped != NULL)
        shot->stepped();
}

void gpu_shot_backward(gpu_shot_t *shot, size_t ts, size_t ts_end, const float *u, image_t *image)
{
    for (size_t t = ts_end + 1; t-- > ts;)
        step_back(shot, t);
    gpu_correlate(&shot->smooth.grid, u, shot->lambda.curr, image, shot->stream);
}
