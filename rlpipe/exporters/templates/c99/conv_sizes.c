typedef struct {
    int rows, channels, height, width, groups, filters, kernel_height, kernel_width;
    int stride_y, stride_x, dilation_y, dilation_x, out_height, out_width;
} conv_sizes;
