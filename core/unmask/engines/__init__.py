"""Where the cells of an evaluation are computed: in this process, or by workers."""
