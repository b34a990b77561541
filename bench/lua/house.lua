-- Lua that is not part of any gateway: what an operator's own code may do with a request. It reads arguments and headers, keeps
-- a session in the shared dict as JSON, and answers with a text concatenated from many.

local cjson = require("cjson.safe")

local sessions = ngx.shared.house

local _M = {}

local function new_session(name)
  local session = { name = name, visits = 0, seen = {} }
  for i = 1, 8 do session.seen[i] = "page-" .. i end
  return session
end

function _M.answer()
  local name = ngx.req.get_uri_args().k or "nobody"
  local agent = ngx.req.get_headers()["host"]
  local stored = sessions:get(name)
  local session = stored and cjson.decode(stored) or new_session(name)
  session.visits = session.visits + 1
  session.seen[session.visits % 8 + 1] = ngx.var.uri .. "#" .. session.visits % 100
  sessions:set(name, cjson.encode(session), 60)

  local lines = {}
  for i, page in ipairs(session.seen) do
    lines[#lines + 1] = string.format("%d. %s, %s", i, page, agent:gsub("%.", "-"))
  end
  table.sort(lines)
  ngx.header["X-Visits"] = session.visits
  ngx.print(table.concat(lines, "\n"))
end

return _M
