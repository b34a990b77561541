-- The real lua-resty-lock over a virtual worker's dicts and sleeps: each worker has an instance of its own, as in nginx.

local realFfi = require("ffi")

local path = "test/fixtures/openresty/resty/lock.lua"
local chunk

-- The library makes a type of its own for what deletes a lock when its object is collected. LuaJIT never frees a type and has room
-- for few, so all instances share one here, and each object is told by itself what to call.
local record = realFfi.typeof("struct { int key_id; int dict_id; }")
local ffi = setmetatable({
  metatype = function(_, methods)
    return methods
  end,
  new = function(methods)
    return realFfi.gc(record(), methods.__gc)
  end,
}, { __index = realFfi })
local libraries = { ffi = ffi, ["resty.core.shdict"] = true }

local restyLock = {}

-- `environment` has the worker's ngx.
function restyLock.new(environment)
  chunk = chunk or assert(loadfile(path))
  local own = { require = function(name)
    return assert(libraries[name], name)
  end }
  setfenv(chunk, setmetatable(own, { __index = environment }))
  return chunk()
end

return restyLock
