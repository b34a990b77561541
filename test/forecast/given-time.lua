-- Makes an nginx live at the times that its requests bring: X-At is the time of a request in µs since the epoch. Whoever sleeps while a
-- request is decided does not wait, but the time goes on by as much, and X-Slept-Ms tells the client. Counters do not expire by the real time.
--
-- This comes before the gateway is loaded, which is the real one.

local ffi = require("ffi")
local real_now, real_sleep = ngx.now, ngx.sleep
local given_us
local slept_us = 0
local monotonic = 1
local stopped

function ngx.now()
  return given_us and given_us / 1000000 or real_now()
end

function ngx.sleep(seconds)
  if ngx.get_phase() ~= "access" then return real_sleep(seconds) end
  local ms = math.floor(seconds * 1000)
  given_us = given_us + ms * 1000
  slept_us = slept_us + ms * 1000
  ngx.ctx.slept_ms = (ngx.ctx.slept_ms or 0) + ms
  ngx.header["X-Slept-Ms"] = ngx.ctx.slept_ms
end

-- The gateway's stopwatch, by which it knows how long it has slept. It stands while a request is decided, as the given time does: a millisecond
-- that really goes by would end a wait that may last just as long as it must.
local clocks = setmetatable({
  sluice_clock_gettime = function(clock, time)
    local result = ffi.C.sluice_clock_gettime(clock, time)
    if clock == monotonic and stopped and ngx.get_phase() == "access" then
      time.seconds, time.nanoseconds = stopped.seconds, stopped.nanoseconds
    end
    local ns = tonumber(time.nanoseconds) + slept_us * 1000
    time.seconds = tonumber(time.seconds) + math.floor(ns / 1e9)
    time.nanoseconds = ns % 1e9
    return result
  end,
}, {
  __index = function(_, name)
    return ffi.C[name]
  end,
})
package.loaded.ffi = setmetatable({ C = clocks }, { __index = ffi })

local dict = getmetatable(ngx.shared.sluice_counters).__index
local safe_set = dict.safe_set
dict.safe_set = function(own, key, value, seconds, flags)
  return safe_set(own, key, value, own == ngx.shared.sluice_counters and 0 or seconds, flags)
end

local semaphore = require("ngx.semaphore")
local held = {}
local given_time = {}

function given_time.set()
  given_us = tonumber(ngx.req.get_headers()["x-at"]) or given_us
  stopped = stopped or ffi.new("struct { long seconds; long nanoseconds; }")
  ffi.C.sluice_clock_gettime(monotonic, stopped)
end

-- Serves a request: at once, with so many bytes as it asks for, or when it is told to end.
function given_time.serve()
  local headers = ngx.req.get_headers()
  local id, bytes = headers["x-hold"], tonumber(headers["x-bytes"]) or 0
  if id then bytes = math.max(bytes, 1) end
  ngx.header["Content-Length"] = bytes
  if id then
    held[id] = semaphore.new(0)
    ngx.send_headers()
    ngx.flush(true)
    held[id]:wait(60)
    held[id] = nil
  end
  if bytes > 0 then ngx.print(string.rep("x", bytes)) end
end

-- Lets a held request end at the time that this one brings.
function given_time.release()
  given_time.set()
  held[ngx.req.get_headers()["x-id"]]:post(1)
  ngx.say("ok")
end

return given_time
