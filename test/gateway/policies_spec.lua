-- Policies, keys and addresses mean the same in the Lua that nginx runs as in Node.

local cjson = require("cjson")
local product = require("test.gateway.product")

local parseDuration = product.module("limiter.src.document.duration").parseDuration
local parseKeyPart = product.module("limiter.src.key.key-part").parseKeyPart
local holdsCredential = product.module("limiter.src.key.credential").holdsCredential
local formReading = product.module("limiter.src.key.form-type").formReading
local ipPrefix = product.module("limiter.src.key.ip-prefix").ipPrefix
local cidr = product.module("limiter.src.key.cidr")
local keys = product.module("limiter.src.compiled.counter-key")
local validatePolicy = product.module("limiter.src.document.validate").validatePolicy
local compilePolicy = product.module("limiter.src.compiled.compile").compilePolicy
local frameLines = product.module("limiter.src.protocol.frame-lines")
local readFrame = product.module("limiter.src.protocol.read-frame").readFrame
local changes = product.module("limiter.src.state.change")
local states = product.module("limiter.src.state.policy-state")
local noPause = product.module("limiter.src.basics.pause").noPause
local noFindings = product.module("limiter.src.document.problems").noFindings
local index = product.module("limiter.src.index.policy-index")

-- As the gateway reads JSON: what is none is nil.
local json = {
  decode = function(text)
    return (require("cjson.safe").decode(text))
  end,
  encode = cjson.encode,
}

-- Reads a text into a state, as a gateway does that holds nothing.
local function loadText(text)
  local state = states.emptyState()
  local held = {
    position = state.position,
    textOf = function() end,
    eachName = function() end,
  }
  local reading = readFrame(function(place)
    return place == 0 and text or nil
  end, json, held, noPause)
  if not reading.frame then
    return { problems = reading.problems }
  end
  local findings = noFindings()
  local prepared = changes.prepareChange(state, reading.frame.change, findings, noPause)
  if #findings.problems > 0 then
    return { problems = findings.problems }
  end
  changes.commitChange(state, prepared)
  return { snapshot = state, change = reading.frame.change, problems = {} }
end

-- Lays out a decoded message as a control plane does, and reads it.
local function loadSnapshot(message)
  local head, lists = { type = "snapshot" }, {}
  for name, value in pairs(message) do
    head[name] = value
  end
  for _, name in ipairs(frameLines.listsOf("snapshot")) do
    lists[name] = {}
    for i, entry in ipairs(head[name] or {}) do
      lists[name][i] = cjson.encode(entry)
    end
    head[name] = nil
  end
  return loadText(frameLines.layOut("snapshot", cjson.encode(head), lists))
end

-- Sorts problems by their words, and the known fields within them, because Lua's tables have no order.
local function inOrder(problems)
  local sorted = {}
  for i, problem in ipairs(problems) do
    local expected = problem.expected:gsub("(known here: )(.*)", function(words, list)
      local names = {}
      for name in list:gmatch("[^, ]+") do
        names[#names + 1] = name
      end
      table.sort(names)
      return words .. table.concat(names, ", ")
    end)
    sorted[i] = { path = problem.path, expected = expected, got = problem.got }
  end
  table.sort(sorted, function(a, b)
    return a.path .. "\0" .. a.expected < b.path .. "\0" .. b.expected
  end)
  return sorted
end

describe("in nginx, a duration", function()
  local durations = product.vectors("durations")
  for _, case in ipairs(durations.valid) do
    it(cjson.encode(case.text) .. " is read", function()
      assert.equal(case.us, parseDuration(case.text))
    end)
  end
  for _, text in ipairs(durations.invalid) do
    it(cjson.encode(text) .. " is none", function()
      assert.is_nil(parseDuration(text))
    end)
  end
end)

describe("in nginx, a key part", function()
  local parts = product.vectors("key-parts")
  for _, case in ipairs(parts.valid) do
    it(cjson.encode(case.text) .. " is read", function()
      assert.same(case.part, parseKeyPart(case.text))
    end)
  end
  for _, text in ipairs(parts.invalid) do
    it(cjson.encode(text) .. " is none", function()
      assert.is_nil(parseKeyPart(text))
    end)
  end
end)

describe("in nginx, a body", function()
  local types = product.vectors("form-types")
  local readings = { forms = "utf-8", inAscii = "ascii", ambiguous = false }
  for kind, cases in pairs(types) do
    for _, case in ipairs(cases) do
      it(("of %s is among the %s"):format(cjson.encode(case), kind), function()
        assert.equal(readings[kind], formReading(case.type, case.encoding))
      end)
    end
  end
end)

describe("in nginx, an address is counted by its network:", function()
  for _, case in ipairs(product.vectors("ip-prefixes").cases) do
    it(("%s at /%d and /%d"):format(cjson.encode(case.address), case.v4Bits, case.v6Bits), function()
      assert.equal(case.network, ipPrefix(case.address, case.v4Bits, case.v6Bits))
    end)
  end
end)

describe("in nginx, a network", function()
  local cidrs = product.vectors("cidrs")
  for _, case in ipairs(cidrs.valid) do
    it(cjson.encode(case.text) .. " is read", function()
      assert.equal(case.network, cidr.formatCidr(cidr.parseCidr(case.text)))
    end)
  end
  for _, text in ipairs(cidrs.invalid) do
    it(cjson.encode(text) .. " is none", function()
      assert.is_nil(cidr.parseCidr(text))
    end)
  end
  for _, case in ipairs(cidrs.addresses) do
    it(case.network .. " has the addresses that are in it", function()
      local network = cidr.parseCidr(case.network)
      for _, address in ipairs(case.within or {}) do
        assert.is_true(cidr.containsAddress(network, address), address)
      end
      for _, address in ipairs(case.without or {}) do
        assert.is_false(cidr.containsAddress(network, address), address)
      end
    end)
  end
end)

describe("in nginx, a counter's stored key", function()
  for _, case in ipairs(product.vectors("counter-keys").cases) do
    it("is " .. cjson.encode(case.key), function()
      local encoded = keys.encodeKeyValues(case.values, #case.values, function(text)
        return "sha1 of " .. #text .. " bytes"
      end)
      local suffix = keys.counterSuffix(product.limitOf(case.limit, case.limit.name))
      assert.equal(case.key, keys.counterPrefix(case.app, case.policy) .. encoded .. suffix)
    end)
  end
end)

describe("in nginx, windows of the calendar are those around", function()
  local calendars = product.module("limiter.src.document.calendar")

  local function us(text)
    local year, month, day, hour, minute, second = text:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)Z$")
    -- Days since 1970, counted from 1 March, so that a leap day is the last of its year.
    local years = month + 0 < 3 and year - 1 or year + 0
    local months = (month + 9) % 12
    local days = 365 * years + math.floor(years / 4) - math.floor(years / 100) + math.floor(years / 400)
    days = days + math.floor((153 * months + 2) / 5) + day - 719469
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000
  end

  for _, case in ipairs(product.vectors("calendar-windows").cases) do
    it(case.note, function()
      local window = {}
      calendars.followCalendar({ unit = case.unit, anchor = case.anchor }, case.transitions, window, us(case.at))
      local expected = {}
      for i, moment in ipairs(case.moments) do
        expected[i] = us(moment)
      end
      assert.same(expected, { window.previousUs, window.startUs, window.endUs, window.nextEndUs })
    end)
  end
end)

describe("in nginx, a policy document", function()
  local documents = product.vectors("policy-documents")
  for _, case in ipairs(documents.valid) do
    it("is good: " .. case.name, function()
      assert.same({ policy = case.policy, problems = {} }, validatePolicy(case.document))
    end)
  end
  for _, case in ipairs(documents.invalid) do
    it("is refused: " .. case.fault, function()
      local validation = validatePolicy(case.document)
      assert.is_nil(validation.policy)
      assert.same(inOrder(case.problems), inOrder(validation.problems))
    end)
  end
end)

describe("in nginx, a request matches its policies in order:", function()
  local matching = product.vectors("policy-matching")
  local compiled = {}
  for i, entry in ipairs(matching.policies) do
    compiled[i] = compilePolicy(entry.app, validatePolicy(entry.document).policy)
  end
  for _, request in ipairs(matching.requests) do
    local headers = request.headers or {}
    it(("%s %s%s %s"):format(request.method, request.host, request.path, cjson.encode(headers)), function()
      local met = {}
      local hasHeader = function(name, values)
        return values[headers[name] or ""] == true
      end
      for _, policy in ipairs(index.candidates(index.indexPolicies(compiled), request.host, request.path)) do
        if index.meets(policy, request.path, request.method, hasHeader) then
          met[#met + 1] = policy.app .. "/" .. policy.name
        end
      end
      assert.same(request.policies, met)
    end)
  end
end)

describe("in nginx, a path and the regular expression", function()
  local regexes = product.module("limiter.src.match.path-regex")
  local function matches(regex, path)
    return regexes.matchesRegex(regexes.pathRegex(regex), path)
  end
  for _, case in ipairs(product.vectors("path-regexes").cases) do
    it(cjson.encode(case.regex), function()
      for _, path in ipairs(case.matches) do
        assert.is_true(matches(case.regex, path), path)
      end
      for _, path in ipairs(case.others) do
        assert.is_false(matches(case.regex, path), path)
      end
    end)
  end

  -- Clients send bytes that are not UTF-8 percent-encoded; a string in Node cannot hold them.
  it("takes each byte that is not UTF-8 as one character, which only . and negated classes match", function()
    for _, bytes in ipairs({ "\255", "\128", "\192", "\193", "\245", "\195" }) do
      assert.is_true(matches("^/a.b$", "/a" .. bytes .. "b"))
      assert.is_true(matches("^/a[^x]b$", "/a" .. bytes .. "b"))
      assert.is_true(matches("^/a\\Wb$", "/a" .. bytes .. "b"))
      assert.is_false(matches("^/a\\wb$", "/a" .. bytes .. "b"))
      assert.is_false(matches("^/ab$", "/a" .. bytes .. "b"))
      assert.is_true(matches("^/a.$", "/a" .. bytes))
    end
    -- These are overlong, half of a surrogate pair, beyond the last code point, and cut short.
    for bytes, count in pairs({ ["\224\128\175"] = 3, ["\237\160\128"] = 3, ["\244\144\128\128"] = 4, ["\226\130"] = 2, ["\240\159\152"] = 3 }) do
      assert.is_true(matches("^.{" .. count .. "}$", bytes))
      assert.is_true(matches("^.{" .. count + 1 .. "}/$", bytes .. "a/"))
    end
  end)
end)

describe("in nginx, the cost that a request states", function()
  local costFrom = product.module("limiter.src.document.cost").costFrom
  local source = { from = "header", name = "x", default = 5, max = 100 }

  it("is an integer from 1 to the maximum, or the default", function()
    assert.equal(5, costFrom(nil, source))
    for _, cost in ipairs({ 1, 9, 10, 99, 100 }) do
      assert.equal(cost, costFrom(tostring(cost), source))
    end
  end)

  it("is absent from any other text", function()
    for _, text in ipairs({ "", "0", "-1", "+1", "1.5", "nan", "inf", "1e1", "0x1", " 1", "1 ", "01", "101", "1, 1", "\0" }) do
      assert.is_nil(costFrom(text, source), text)
    end
  end)
end)

describe("in nginx, an override", function()
  local compiling = product.module("limiter.src.compiled.compile")
  local policy = compilePolicy("shop", validatePolicy({
    name = "books",
    key = { "ip", "header:x-user" },
    limits = { { algorithm = "fixed-window", quota = 5, window = "1d" } },
    overrides = {
      { key = { "192.0.2.1", "vip-42" }, mode = "shadow" },
      { key = { "*", "vip-*" }, limits = { { algorithm = "fixed-window", quota = 9, window = "1d" } } },
      { key = { "2001:db8::7", "é😀*" }, mode = "off" },
    },
  }).policy)
  local function found(...)
    local override = compiling.overrideFor(policy, { ... })
    return override and (override.policy.mode .. " " .. override.limits[1].rate.quota)
  end

  it("is the first whose patterns match", function()
    assert.equal("shadow 5", found("192.0.2.1", "vip-42"))
    assert.equal("enforce 9", found("192.0.2.2", "vip-42"))
    assert.equal("enforce 9", found("192.0.2.1", "vip-"))
    assert.equal("off 5", found("2001:db8:0:0:0:0:0:0/64", "é😀!"))
    assert.is_nil(found("192.0.2.1", "vip"))
    assert.is_nil(found("2001:db8:0:0:0:0:0:0/64", "é"))
    assert.is_nil(found("", ""))
  end)

  it("is searched only if the policy has overrides", function()
    assert.is_nil(compiling.overrideFor(compilePolicy("shop", validatePolicy({
      name = "books",
      limits = { { algorithm = "fixed-window", quota = 5, window = "1d" } },
    }).policy), {}))
  end)
end)

describe("in nginx, exemptions", function()
  local compiling = product.module("limiter.src.compiled.compile")
  local function policyWith(exempt)
    local limits = { { algorithm = "fixed-window", quota = 5, window = "1d" } }
    return compilePolicy("shop", validatePolicy({ name = "books", key = { "ip" }, limits = limits, exempt = exempt }).policy)
  end

  it("cover the addresses of the networks", function()
    local policy = policyWith({ cidrs = { "10.1.2.3/8", "192.0.2.128/25", "192.0.2.1", "2001:db8::/33", "::1" } })
    for _, address in ipairs({ "10.255.0.1", "::ffff:10.0.0.0", "192.0.2.255", "192.0.2.1", "2001:db8:7fff::1", "::1" }) do
      assert.is_true(compiling.isExemptAddress(policy, address), address)
    end
    for _, address in ipairs({ "11.0.0.0", "192.0.2.2", "2001:db8:8000::", "::2", "unix:", "" }) do
      assert.is_false(compiling.isExemptAddress(policy, address), address)
    end
    assert.is_false(compiling.isExemptKey(policy, { "10.0.0.1" }))
  end)

  it("cover the key values that match", function()
    local policy = policyWith({ keys = { { "192.0.2.*" }, { "2001:db8::1" } } })
    assert.is_true(compiling.isExemptKey(policy, { "192.0.2.9" }))
    assert.is_true(compiling.isExemptKey(policy, { "2001:db8:0:0:0:0:0:0/64" }))
    assert.is_false(compiling.isExemptKey(policy, { "192.0.3.9" }))
    assert.is_false(compiling.isExemptAddress(policy, "192.0.2.9"))
  end)
end)

describe("in nginx, a schedule", function()
  local schedules = product.module("limiter.src.document.schedule")
  local message = cjson.decode([==[{"format":1,"epoch":"e1","revision":1,"policies":[{"app":"shop","document":{"name":"p",
    "limits":[{"algorithm":"fixed-window","quota":5,"window":"1d"}],
    "schedule":{"timezone":"Europe/Berlin","windows":[{"days":["sun"],"from":"22:00","to":"06:00"}]}}}],
    "zones":{"Europe/Berlin":[[1767225600,60],[1774746000,120]]}}]==])
  local reading = loadSnapshot(message)

  it("is read with its zone", function()
    assert.same({}, reading.problems)
    message.zones["Europe/Berlin"] = nil
    assert.equal("zones.Europe/Berlin", loadSnapshot(message).problems[1].path)
  end)

  it("is open by its zone's clocks, over the end of the week too", function()
    local schedule = reading.snapshot.policiesByName.shop.p.schedule
    -- This is Sunday the 29th of March 2026, 22:00 in Berlin's summer: 20:00 UTC.
    local opens = 1774814400
    local function open(at)
      return schedules.isOpen(schedule, at)
    end
    assert.same({ false, true, true, false }, { open(opens - 1), open(opens), open(opens + 28799), open(opens + 28800) })
    assert.equal(opens, schedules.nextChangeSeconds(schedule, opens - 10))
    assert.equal(1774746000, schedules.nextChangeSeconds(schedule, 1774746000 - 10))
    -- A week before, in winter, the window opens an hour later in UTC.
    assert.same({ false, true }, { open(opens - 604800), open(opens - 604800 + 3600) })
  end)
end)

describe("in nginx, a claim", function()
  local claims = product.module("limiter.src.key.jwt-claim")

  it("is a text, or an integer to its last digit", function()
    local payload = cjson.decode('{"sub":"ann","id":9007199254740991,"low":-10000000001,"zero":0,"a":{"b":"c"}}')
    assert.equal("ann", claims.claimText(payload, "sub"))
    assert.equal("9007199254740991", claims.claimText(payload, "id"))
    assert.equal("-10000000001", claims.claimText(payload, "low"))
    assert.equal("0", claims.claimText(payload, "zero"))
    assert.equal("c", claims.claimText(payload, "a.b"))
  end)

  it("of any other kind is absent", function()
    for _, text in ipairs({ "null", "[]", "{}", '["sub"]', '{"sub":null}', '{"sub":1.5}', '{"sub":["a"]}', '{"sub":1e300}' }) do
      assert.is_nil(claims.claimText(cjson.decode(text), "sub"), text)
      assert.is_nil(claims.claimText(cjson.decode(text), "sub.sub"), text)
    end
  end)
end)

describe("in nginx, a snapshot", function()
  local matching = product.vectors("policy-matching")

  it("is read from its text", function()
    local message = { type = "snapshot", format = 1, epoch = "e1", revision = 7, policies = matching.policies }
    local reading = loadSnapshot(cjson.decode(cjson.encode(message)))
    assert.same({}, reading.problems)
    assert.equal(#matching.policies, #reading.change.policies)
    assert.equal(#matching.policies, reading.snapshot.policyCount)
    assert.equal(7, reading.snapshot.position.revision)
  end)

  it("without policies is read, though Lua cannot tell an empty list from an empty object", function()
    local reading = loadSnapshot(cjson.decode('{"format":1,"epoch":"e1","revision":0,"policies":[]}'))
    assert.same({}, reading.problems)
    assert.same({}, reading.change.policies)
    assert.equal(0, reading.snapshot.policyCount)
  end)

  it("contains bans and callers, and has none if it does not mention them", function()
    local head = '{"format":1,"epoch":"e1","revision":0,"policies":[]'
    local without = loadSnapshot(cjson.decode(head .. "}")).snapshot
    assert.same({ {}, {} }, { without.bans.byId, without.callers })
    local bans = {
      { id = "1", app = "shop", cidr = "2001:db8::/32", untilSeconds = 1800000000 },
      { id = "2", app = "shop", policy = "books", key = { "*", "vip-42" }, untilSeconds = 1800000000 },
      { id = "3", app = "shop", policy = "all", key = {}, untilSeconds = 1800000000 },
    }
    local callers = { { app = "shop", sha256 = ("0a"):rep(32), expiresAtSeconds = 1800000000 } }
    local entries = (',"bans":%s,"callers":%s}'):format(cjson.encode(bans), cjson.encode(callers))
    local reading = loadSnapshot(cjson.decode(head .. entries))
    assert.same({}, reading.problems)
    assert.same({ bans, callers }, { reading.change.bans, reading.change.callers })
    assert.same({ ["1"] = bans[1], ["2"] = bans[2], ["3"] = bans[3] }, reading.snapshot.bans.byId)
    assert.same({ [callers[1].sha256] = callers[1] }, reading.snapshot.callers)
  end)

  it("lets no policy match whose app has no realm, and has an entry for the bans of an app with one", function()
    local text = [[{"format":1,"epoch":"e1","revision":0,
      "apps":[{"app":"sms"},{"app":"crm","realm":{"hosts":[],"paths":["/crm"]}}],
      "bans":[{"id":"1","app":"crm","cidr":"10.0.0.0/8","untilSeconds":1800000000}],
      "policies":[{"app":"sms","document":{"name":"a","limits":[{"algorithm":"fixed-window","quota":1,"window":"1s"}]}}]}]]
    local reading = loadSnapshot(cjson.decode(text))
    assert.same({}, reading.problems)
    local met = {}
    for i, policy in ipairs(index.candidates(reading.snapshot.index, "any.test", "/crm")) do
      met[i] = policy.app .. " " .. table.concat(policy.match.paths, " ")
    end
    assert.same({ "crm /crm/* /crm" }, met)
    assert.equal("a", reading.snapshot.policiesByName.sms.a.name)
  end)

  it("with a damaged ban or caller is refused with the place of every fault", function()
    local text = [[{"format":1,"epoch":"e1","revision":0,"policies":[],
      "bans":[null,{"id":"1","app":"shop","cidr":"10.0.0.0/33","untilSeconds":null},{"id":"2","app":"shop","untilSeconds":1}],
      "callers":[5,{"app":"shop","sha256":"0A"}]}]]
    local places = {}
    for i, problem in ipairs(loadSnapshot(cjson.decode(text)).problems) do
      places[i] = problem.path .. ": " .. problem.got
    end
    table.sort(places)
    assert.same({
      "bans[0]: null",
      'bans[1].cidr: "10.0.0.0/33"',
      "bans[1].untilSeconds: null",
      "bans[2]: none of them",
      "callers[0]: 5",
      'callers[1].sha256: "0A"',
    }, places)
  end)

  it("that is damaged is refused with the place of every fault", function()
    local text = '{"format":1,"epoch":null,"revision":-1,"policies":[{"app":"Shop"},{"app":"shop","document":null},5,null]}'
    local places = {}
    for i, problem in ipairs(loadSnapshot(cjson.decode(text)).problems) do
      places[i] = problem.path .. ": " .. problem.got
    end
    assert.same({
      "epoch: null",
      "revision: -1",
      'policies[0].app: "Shop"',
      "policies[1].document: null",
      "policies[2]: 5",
      "policies[3]: null",
    }, places)
  end)

  it("of any wrong kind is refused, and nothing throws", function()
    local texts = { "", "\n", "5\n", '"x"\n', "null\n", "true\n", "[]\n", "[1]\n", "{}\n", "{,\n", "[1],\n", '{"type":5,\n' }
    for _, format in ipairs({ "2", '{"a":1}', "null", '"1"' }) do
      texts[#texts + 1] = ('{"type":"snapshot","format":%s,\n"bans":[\n],\n"callers":[\n],\n"policies":[\n]}\n'):format(format)
    end
    for _, list in ipairs({ "apps", "bans", "callers", "policies" }) do
      texts[#texts + 1] = ('{"type":"snapshot","format":1,"epoch":"e","revision":1,"%s":{},\n"bans":[\n],\n"callers":[\n],\n"policies":[\n]}\n'):format(list)
    end
    for _, text in ipairs(texts) do
      local reading = loadText(text)
      assert.is_nil(reading.snapshot, text)
      assert.equal(1, #reading.problems, text)
    end
    for _, list in ipairs({ "apps", "bans", "callers", "policies" }) do
      for _, entry in ipairs({ "5", '"x"', "null", "true", "[]", "[1]", "{}", "[null]", '{"app":null}', '{"document":5}' }) do
        local reading = loadSnapshot(cjson.decode(('{"format":1,"epoch":"e","revision":1,"%s":[%s]}'):format(list, entry)))
        assert.is_nil(reading.snapshot, list .. " " .. entry)
        assert.is_true(#reading.problems > 0, list .. " " .. entry)
      end
    end
  end)
end)

describe("in nginx, the parts of a key", function()
  it("are credentials as the policy says, and no other policy with the same key", function()
    local function shown(secret)
      local document = {
        name = "books",
        key = { "ip", "header:x-token-kind", "cookie:sid" },
        secret = secret,
        limits = { { algorithm = "fixed-window", quota = 1, window = "1m" } },
      }
      local validation = validatePolicy(document)
      assert.same({}, validation.problems)
      local found = {}
      for i, part in ipairs(compilePolicy("shop", validation.policy).policy.key) do
        found[i] = holdsCredential(part, "ann")
      end
      return found
    end
    assert.same({ true, false, true }, shown({ ["ip/32/64"] = true, ["header:X-Token-Kind"] = false }))
    assert.same({ false, true, true }, shown(nil))
  end)
end)
