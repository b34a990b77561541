-- Holds mutants of the gateway against specs of the virtual nginx (its arguments). SLUICE_BUNDLE is the bundle that has all mutants.
--
-- For the line "measure" it runs every test without a mutant, and prints for each:
--
--   test NUMBER CPU-SECONDS FILE NAME
--   reaches MUTANT,MUTANT…
--   failed MESSAGE                     if it did
--
-- and "measured" after the last. For each line "MUTANT TEST:SECONDS,TEST:SECONDS…" it forks, runs these tests with that mutant until one
-- fails or uses more CPU time than that, and prints "MUTANT killed TEST", "MUTANT timeout TEST" or "MUTANT survived".

local ffi = require("ffi")
local luassert = require("luassert")

ffi.cdef([[
  int fork(void);
  int waitpid(int pid, int *status, int options);
  void _exit(int status);
  void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
  typedef struct { long again_seconds, again_us, seconds, us; } sluice_itimer;
  int setitimer(int which, const sluice_itimer *timer, sluice_itimer *before);
]])

-- setitimer's: it counts CPU time, which does not depend on what else the machine does, and ends the process whatever code it is in.
local cpuTimer = 2

local tests = {}
local file
local path, hooks = {}, {}

-- As much of busted as these specs use. One that uses more ends this by an error.
function _G.describe(name, body)
  local outer = hooks
  hooks = { unpack(outer) }
  path[#path + 1] = name
  body()
  path[#path] = nil
  hooks = outer
end

function _G.it(name, body)
  local before = hooks
  tests[#tests + 1] = {
    file = file,
    name = table.concat(path, " ") .. " " .. name,
    run = function()
      for _, hook in ipairs(before) do
        hook()
      end
      body()
    end,
  }
end

function _G.before_each(body)
  hooks[#hooks + 1] = body
end

_G.assert = luassert
for _, name in ipairs(arg) do
  file = name
  assert(loadfile(name))()
end

local function say(...)
  io.stdout:write(table.concat({ ... }, " "), "\n")
  io.stdout:flush()
end

local function messageOf(failure)
  return (tostring(type(failure) == "table" and failure.message or failure):gsub("%s+", " "))
end

-- Each worker of a virtual nginx reads these when it loads the bundle.
_G.sluiceMutant = 0
local reached
function _G.sluiceReached(...)
  for i = 1, select("#", ...) do
    reached[select(i, ...)] = true
  end
end

local function measure()
  for number, test in ipairs(tests) do
    reached = {}
    local began = os.clock()
    local passed, failure = pcall(test.run)
    local seconds = os.clock() - began
    local mutants = {}
    for mutant in pairs(reached) do
      mutants[#mutants + 1] = mutant
    end
    say("test", number, ("%.4f"):format(seconds), test.file, test.name)
    say("reaches", table.concat(mutants, ","))
    if not passed then
      say("failed", messageOf(failure))
    end
  end
  say("measured")
end

local function limit(seconds)
  local timer = ffi.new("sluice_itimer", 0, 0, math.floor(seconds), math.floor(seconds % 1 * 1000000))
  ffi.C.setitimer(cpuTimer, timer, nil)
end

-- Which test a child is in: one that is ended by force says nothing any more.
local current = ffi.cast("int *", ffi.C.mmap(nil, 4096, 3, ffi.os == "OSX" and 0x1001 or 0x21, -1, 0))
local status = ffi.new("int[1]")

local function findKiller(mutant, numbers)
  _G.sluiceMutant = tonumber(mutant)
  function _G.sluiceReached() end
  for number, seconds in numbers:gmatch("(%d+):([%d.]+)") do
    current[0] = tonumber(number)
    limit(tonumber(seconds))
    if not pcall(tests[current[0]].run) then
      return "killed " .. number
    end
  end
  return "survived"
end

for line in io.lines() do
  local mutant, numbers = line:match("^(%d+) (.*)$")
  if not mutant then
    measure()
  else
    local child = ffi.C.fork()
    assert(child >= 0, "there is no other process to be had")
    if child == 0 then
      say(mutant, findKiller(mutant, numbers))
      ffi.C._exit(0)
    end
    ffi.C.waitpid(child, status, 0)
    if status[0] ~= 0 then
      say(mutant, "timeout", current[0])
    end
  end
end
