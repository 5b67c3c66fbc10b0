/* Steps in a row, the memory kept from one to the next; 1 where an episode begins. */
#define STEPS @steps@

static const unsigned char begins[STEPS] = {@begins@};

static const @prefix@_input met[STEPS] = {
@inputs@
};

static const @prefix@_output answered[STEPS] = {
@outputs@
};

