/* The largest number of each window of x (planes, height, width); NaN is larger than all. */
static void max_pool_@type@(const max_pool_sizes *s, const @type@ *RESTRICT x, @type@ *RESTRICT y)
{
    const int places = s->out_height * s->out_width;
    for (int p = 0; p < s->planes; ++p, x += s->height * s->width, y += places)
        for (int place = 0; place < places; ++place) {
            const int top = place / s->out_width * s->stride_y, left = place % s->out_width * s->stride_x;
            @type@ most = x[top * s->width + left];
            for (int ky = 0; ky < s->kernel_height; ++ky)
                for (int kx = 0; kx < s->kernel_width; ++kx) {
                    const @type@ v = x[(top + ky * s->dilation_y) * s->width + left + kx * s->dilation_x];
                    most = v > most || v != v ? v : most;
                }
            y[place] = most;
        }
}
