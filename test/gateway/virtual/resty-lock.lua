-- lua-resty-lock's stand-in over a virtual worker's dicts and sleeps: each worker has an instance of its own, as in nginx.

local restyLock = {}

-- `environment` has the worker's ngx.
function restyLock.new(environment)
  local chunk = assert(loadfile("test/fixtures/openresty/resty/lock.lua"))
  return setfenv(chunk, environment)()
end

return restyLock
