-- Computes floor(a × b ÷ divisor) and the rest for products beyond 2^53, which doubles would round: six bits of `a` at a time.

local floor = math.floor

local exact = 2 ^ 53

return function(a, b, divisor)
  local product = a * b
  if product < exact then
    local rest = product % divisor
    return (product - rest) / divisor, rest
  end
  local quotient, rest = 0, 0
  local place = 2 ^ 30
  while place >= 1 do
    local digit = floor(a / place)
    a = a - digit * place
    local partial = rest * 64 + digit * b
    rest = partial % divisor
    quotient = quotient * 64 + (partial - rest) / divisor
    place = place / 64
  end
  return quotient, rest
end
