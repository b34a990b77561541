// What Go's net/http reads of a request.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

func encoded(values []string) []string {
	found := []string{}
	for _, value := range values {
		found = append(found, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return found
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var fields []string
		for _, field := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			bytes, _ := base64.StdEncoding.DecodeString(field)
			fields = append(fields, string(bytes))
		}
		name, query, body, kind, cookie := fields[0], fields[1], fields[2], fields[3], fields[4]
		header := http.Header{}
		if kind != "" {
			header.Set("Content-Type", kind)
		}
		if cookie != "" {
			header.Set("Cookie", cookie)
		}
		request := &http.Request{
			Method: "POST", URL: &url.URL{RawQuery: query}, Header: header,
			Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
		}
		// It reads what it can, and returns the first error.
		_ = request.ParseForm()
		cookies := []string{}
		for _, one := range request.Cookies() {
			if one.Name == name {
				cookies = append(cookies, one.Value)
			}
		}
		_ = out.Encode(map[string]map[string][]string{"Go": {
			"query":  encoded(request.URL.Query()[name]),
			"form":   encoded(request.PostForm[name]),
			"merged": encoded(request.Form[name]),
			"cookie": encoded(cookies),
		}})
	}
}
