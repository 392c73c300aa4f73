// Of on_host.h, for a test that is compiled without it.
void set_grid_extent(unsigned int x, unsigned int y, unsigned int z) {
  gdn_grid_extent = {x, y, z};
}
