#!/bin/sh
# Tests an nginx configuration with Sluice as a start would, and leaves a running nginx alone:
#   sluice-check [-p PREFIX] [-c FILE] [-g DIRECTIVES]
# The options are nginx's own. SLUICE_NGINX names the nginx; otherwise it is openresty, or else nginx. The exit code is 0 without problems,
# else 1. Run it as the account that starts nginx, and with its environment. It needs sluice_check.lua beside it, and nginx 1.19.5 or newer.
set -u
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
here=$(dirname -- "$(readlink -f -- "$0")")
nginx=${SLUICE_NGINX:-$(command -v openresty || command -v nginx || echo nginx)}

prefix='' given=''
while getopts p:c:g: option "$@"; do
  case $option in
    p) prefix=$OPTARG ;;
    g) given=$OPTARG ;;
    c) ;;
    *) echo "usage: sluice-check [-p PREFIX] [-c FILE] [-g DIRECTIVES]" >&2 && exit 1 ;;
  esac
done

directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
trap 'exit 1' HUP INT TERM

# What nginx itself finds. It also says which files the configuration has.
if ! "$nginx" -T "$@" >"$directory/dump" 2>"$directory/said"; then
  cat "$directory/said"
  echo "sluice-check: problem: $nginx itself refuses the configuration"
  exit 1
fi
grep -v -e 'syntax is ok$' -e 'test is successful$' "$directory/said"

# The rest needs Lua: nginx runs it, with the same modules, and ends before it would serve.
modules=$(
  { cat "$directory/dump" && printf '%s\n' "$given"; } | sed 's/#.*//; s/;/;\n/g' |
    sed -n 's/^[[:space:]]*\(load_module[[:space:]][^;]*;\).*/\1/p'
)
# A module such as that of Perl clears the environment but for what is named.
variables=$(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/env \1;/p')
user=''
[ "$(id -u)" -ne 0 ] || user="user root $(id -gn root);"
command="'$nginx'${prefix:+ -p '$prefix'}"
cat >"$directory/check.conf" <<END
$modules
$variables
$user
daemon off;
pid '$directory/check.pid';
error_log '$directory/check.log';
events {}
http {
  access_log off;
  client_body_temp_path '$directory/temporary';
  proxy_temp_path '$directory/temporary';
  fastcgi_temp_path '$directory/temporary';
  uwsgi_temp_path '$directory/temporary';
  scgi_temp_path '$directory/temporary';
  init_by_lua_block {
    dofile([==[$here/sluice_check.lua]==]).check({
      directory = [==[$directory]==], module = [==[$here/sluice_check.lua]==], nginx = [==[$command]==]
    }, [==[$given]==])
  }
}
END
set --
[ -z "$prefix" ] || set -- -p "$prefix"
"$nginx" "$@" -e "$directory/check.log" -c "$directory/check.conf"
case $? in
  0) exit 0 ;;
  3) exit 1 ;;
esac
cat "$directory/check.log"
echo "sluice-check: problem: $nginx did not run the test, which needs its Lua module and sluice_check.lua beside $0"
exit 1
