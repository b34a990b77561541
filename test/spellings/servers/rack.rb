# What Rack reads of a request, with which Rails and Sinatra read theirs.
require "rack"
require "json"
require "stringio"

def leaves(value)
  case value
  when Hash then value.values.flat_map { |one| leaves(one) }
  when Array then value.flat_map { |one| leaves(one) }
  when nil then []
  else [[value.to_s.b].pack("m0")]
  end
end

# The plain spelling's only leaf is where the value is looked for.
def read(probe)
  found = yield
  while probe.is_a?(Hash)
    key = probe.keys.first
    return [] unless found.is_a?(Hash) && found.key?(key)
    found = found[key]
    probe = probe[key]
  end
  leaves(found)
rescue StandardError
  []
end

$stdin.binmode
$stdout.sync = true
while (line = $stdin.gets)
  name, query, body, type, cookie, plain = line.chomp.split("\t", -1).map { |field| field.unpack1("m0") }
  env = {
    "REQUEST_METHOD" => "POST", "PATH_INFO" => "/", "SCRIPT_NAME" => "", "SERVER_NAME" => "x", "SERVER_PORT" => "80",
    "rack.url_scheme" => "http", "rack.input" => StringIO.new(body), "rack.errors" => StringIO.new,
    "QUERY_STRING" => query, "CONTENT_LENGTH" => body.bytesize.to_s
  }
  env["CONTENT_TYPE"] = type unless type.empty?
  env["HTTP_COOKIE"] = cookie unless cookie.empty?
  request = Rack::Request.new(env)
  probe = Rack::Utils.parse_nested_query(plain)
  readings = {
    query: read(probe) { request.GET },
    form: read(probe) { request.POST },
    merged: read(probe) { request.params },
    cookie: read({ name => "" }) { request.cookies }
  }
  $stdout.write(JSON.generate({ Rack: readings }), "\n")
end
