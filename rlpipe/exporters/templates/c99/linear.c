/* y (rows, outer) = x (rows, inner) times w (inner, outer), plus b (outer). */
static void linear_@type@(const @type@ *RESTRICT x, const @type@ *RESTRICT w, const @type@ *RESTRICT b, int rows, int inner,
                         int outer, @type@ *RESTRICT y)
{
    for (int r = 0; r < rows; ++r, x += inner, y += outer) {
        for (int j = 0; j < outer; ++j)
            y[j] = b[j];
        for (int k = 0; k < inner; ++k)
            for (int j = 0; j < outer; ++j)
                y[j] += x[k] * w[k * outer + j];
    }
}
