typedef struct {
    int planes, height, width, kernel_height, kernel_width;
    int stride_y, stride_x, dilation_y, dilation_x, out_height, out_width;
} max_pool_sizes;
