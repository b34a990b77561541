-- For --profile: samples the worker's Lua by function and line, and logs every trace that LuaJIT compiles or gives up.

local _M = {}

function _M.start(directory)
  require("jit.v").on(directory .. "/traces.txt")
  require("jit.p").start("Fli1", directory .. "/profile.txt")
end

function _M.stop()
  require("jit.p").stop()
  require("jit.v").off()
end

return _M
