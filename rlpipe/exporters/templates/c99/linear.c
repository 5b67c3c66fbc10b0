/*
 * y (rows, outer) = x (rows, inner) times w, plus b (outer). The columns of w come in panels of @panel@, one after the other,
 * so that the sums of a panel stay in registers and w is read from front to back.
 */
static void linear_@type@(const @type@ *RESTRICT x, const @type@ *RESTRICT w, const @type@ *RESTRICT b, int rows, int inner,
                         int outer, @type@ *RESTRICT y)
{
    for (int r = 0; r < rows; ++r, x += inner, y += outer) {
        const @type@ *v = w;
        for (int start = 0; start < outer; start += @panel@) {
            const int n = outer - start < @panel@ ? outer - start : @panel@;
            @type@ sum[@panel@] = {0};
            int k = 0;
            if (n == @panel@)
                for (; k + 4 <= inner; k += 4, v += 4 * @panel@)
                    for (int j = 0; j < @panel@; ++j)
                        sum[j] += x[k] * v[j] + x[k + 1] * v[@panel@ + j] + x[k + 2] * v[2 * @panel@ + j] +
                                  x[k + 3] * v[3 * @panel@ + j];
            for (; k < inner; ++k, v += n)
                for (int j = 0; j < n; ++j)
                    sum[j] += x[k] * v[j];
            for (int j = 0; j < n; ++j)
                y[start + j] = b[start + j] + sum[j];
        }
    }
}
