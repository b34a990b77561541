-- Fills nginx's shared dict with counters of one limit, by the product's node store, and reports the memory that they need.

local bundle = require("bundle")
local load = require("limiter_load")

local _M = {}

local clock = load.start
-- Replaced before the product is loaded, since the product may keep the function.
ngx.now = function()
  return clock / 1000000
end

local policy, decide_on_node, address_of

function _M.start(_, directory)
  local module = bundle.open(directory)
  policy = bundle.policy(directory, module)
  local store = module("gateway.src.stores.node.node-counters")
  store.openNodeStore(1, 1)
  decide_on_node = store.decideOnNode
  local ip_prefix = module("limiter.src.key.ip-prefix").ipPrefix
  local encode = module("limiter.src.compiled.counter-key").encodeKeyValues
  address_of = function(number)
    local address
    local high, low = math.floor(number / 65536), number % 65536
    if number % 2 == 0 then
      address = string.format("%d.%d.%d.%d", 11 + high % 200, 100 + high / 200, low / 256, low % 256)
    else
      -- These are like the addresses of a provider that assigns a /64 to each of a million subscribers.
      address = string.format("2001:db8:%x:%x::1", 40960 + high, low)
    end
    return encode({ ip_prefix(address, 32, 64) }, 1, tostring)
  end
end

-- counters: how many. charges: to each counter, `step` µs apart. Prints the number of stored cells, the bytes of the pages
-- that each counter needed, and the bytes that are free.
local function fill(counters, charges, step)
  local dict = ngx.shared.sluice_counters
  local free = dict:free_space()
  local keys = {}
  for i = 1, counters do keys[i] = address_of(i) end
  for _ = 1, charges do
    for i = 1, counters do assert(decide_on_node(policy, policy.limits, keys[i], nil, nil), "a charge was refused") end
    clock = clock + step
  end
  keys = nil
  local left = dict:free_space()
  ngx.say(string.format("%d %.1f %d", #dict:get_keys(0), (free - left) / counters, left))
end

function _M.answer()
  if ngx.var.arg_mode == "ready" then return end
  fill(tonumber(ngx.var.arg_counters), tonumber(ngx.var.arg_charges), tonumber(ngx.var.arg_step))
end

return _M
