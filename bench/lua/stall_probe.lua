-- Measures how long a worker keeps all requests waiting: a light thread that is due every millisecond records how late it is,
-- and how much CPU the worker used meanwhile. The second excludes what the machine gives to others.
local ffi = require("ffi")
ffi.cdef([[
  struct probe_timespec { long seconds; long nanoseconds; };
  int probe_clock_gettime(int clock, struct probe_timespec *time) asm("clock_gettime");
]])
local time = ffi.new("struct probe_timespec")
local monotonic, threadCpu = 1, 3

local function clock(which)
  ffi.C.probe_clock_gettime(which, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

local probe = {}
local stalls = ngx.shared.stalls

local function noteMax(name, seconds)
  local key = name .. ngx.worker.id()
  if seconds > (stalls:get(key) or 0) then stalls:set(key, seconds) end
end

function probe.start()
  ngx.timer.at(0, function()
    local last, lastCpu = clock(monotonic), clock(threadCpu)
    while not ngx.worker.exiting() do
      ngx.sleep(0.001)
      local now, cpu = clock(monotonic), clock(threadCpu)
      local late = now - last - 0.001
      if late > 0.001 then noteMax("late", late) end
      if late > 0.005 then stalls:incr("over", 1, 0) end
      if cpu - lastCpu > 0.0005 then noteMax("busy", cpu - lastCpu) end
      stalls:incr("looks", 1, 0)
      last, lastCpu = now, cpu
    end
  end)
end

-- Prints what all workers recorded since the last time: seconds, and counts.
function probe.tell()
  local late, busy = 0, 0
  for id = 0, ngx.worker.count() - 1 do
    late = math.max(late, stalls:get("late" .. id) or 0)
    busy = math.max(busy, stalls:get("busy" .. id) or 0)
  end
  local answer = { late, busy, stalls:get("over") or 0, stalls:get("looks") or 0 }
  stalls:flush_all()
  ngx.say(table.concat(answer, " "))
end

return probe
