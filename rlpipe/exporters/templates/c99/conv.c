/* Each patch of x (rows, channels, height, width) times w (groups, taps, outer), plus b, into y. */
static void conv_@type@(const conv_sizes *s, const @type@ *RESTRICT x, const @type@ *RESTRICT w, const @type@ *RESTRICT b,
                       @type@ *RESTRICT patch, @type@ *RESTRICT y)
{
    const int channels = s->channels / s->groups, outer = s->filters / s->groups;
    const int taps = channels * s->kernel_height * s->kernel_width, places = s->out_height * s->out_width;
    for (int r = 0; r < s->rows; ++r)
        for (int g = 0; g < s->groups; ++g, x += channels * s->height * s->width, y += outer * places)
            for (int place = 0; place < places; ++place) {
                const int top = place / s->out_width * s->stride_y, left = place % s->out_width * s->stride_x;
                int n = 0;
                for (int c = 0; c < channels; ++c)
                    for (int ky = 0; ky < s->kernel_height; ++ky)
                        for (int kx = 0; kx < s->kernel_width; ++kx)
                            patch[n++] = x[(c * s->height + top + ky * s->dilation_y) * s->width + left +
                                           kx * s->dilation_x];
                linear_@type@(patch, w + g * taps * outer, b + g * outer, 1, taps, outer, patch + taps);
                for (int j = 0; j < outer; ++j)
                    y[j * places + place] = patch[taps + j];
            }
}
