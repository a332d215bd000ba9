// Calls a function whose first template argument is the side of the pooling window, f[4]: 1, 2 or 3.

#pragma once

#define EACH_WINDOW(FUNCTION, ...)                   \
  const Shape s{f[0], f[1], f[2], f[3], f[4], f[5]}; \
  if (s.p == 1) FUNCTION<1>(s, __VA_ARGS__);         \
  else if (s.p == 2) FUNCTION<2>(s, __VA_ARGS__);    \
  else FUNCTION<3>(s, __VA_ARGS__);
