-- Most gateways do this today: one EVALSHA a request, over a pool of kept connections. The bucket is that of
-- bench/policies.ts.

local found, redis_client = pcall(require, "resty.redis")
if not found then redis_client = require("nginx.redis") end

local tokens_per_second = 10 / 60
local capacity = 100000000

local port = tonumber(os.getenv("BENCH_REDIS_PORT"))
local script
local sha

local _M = {}

function _M.access()
  local redis = redis_client:new()
  redis:set_timeouts(1000, 1000, 1000)
  if not redis:connect("127.0.0.1", port) then return ngx.exit(503) end
  local key = "redis-each:" .. ngx.var.arg_k
  if not sha then sha = redis:script("load", script) end
  local reply, failure = redis:evalsha(sha, 1, key, tokens_per_second, capacity, 1)
  if not reply then
    ngx.log(ngx.ERR, "redis-each: ", failure)
    redis:close()
    return ngx.exit(503)
  end
  redis:set_keepalive(60000, 64)
  if reply[1] ~= 1 then return ngx.exit(429) end
end

local file = assert(io.open(assert(package.searchpath("token_bucket", package.path))))
script = file:read("*a")
file:close()

return _M
