-- A player in a process of its own, run in the tree with gateway/dist: it answers each line of standard input (see
-- answers.lua), and ends each answer with a line of one dot.
--
--   luajit  test/parity/play.lua modules <directory of the traces in Lua>   with the modules that nginx runs
--   lua5.1  test/parity/play.lua scripts <directory of the traces in Lua>   with the scripts that Redis runs

local kind, luaDir = arg[1], arg[2]
local product = dofile("test/gateway/product.lua")
local answers = dofile("test/parity/answers.lua")

-- Traces in Lua come from their directory, and the limiter's modules from the gateway's bundle.
local own = require
local loaded = {}
local function load(name)
  if not name:find("^limiter%.") and not name:find("^test%.") then
    return own(name)
  end
  local file = luaDir .. "/" .. name:match("[^.]+$") .. ".lua"
  local chunk = loadfile(file)
  if not chunk then
    return product.module(name)
  end
  if not loaded[name] then
    loaded[name] = setfenv(chunk, setmetatable({ require = load }, { __index = _G }))(name)
  end
  return loaded[name]
end

local trace = load("test.parity.trace")
local player
if kind == "modules" then
  player = load("test.parity.memory-player").memoryPlayer()
else
  local stand = product.newRedis()
  stand.unpack = stand.struct.unpack
  function stand.get(key)
    return stand.keys[key] or false
  end
  function stand.clear(keys)
    for _, key in ipairs(keys) do
      stand.keys[key] = nil
    end
  end
  player = dofile("test/parity/redis-player.lua")(stand, trace)
end

for line in io.lines() do
  io.write(answers(trace, player, line), "\n.\n")
  io.flush()
end
