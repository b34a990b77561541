// The driver of the Go client: tests control it by lines of JSON, as clients/README.md describes. It uses nothing but what the package offers
// to everybody.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	input, output := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	driver := newDriver()
	for {
		text, err := input.ReadBytes('\n')
		if len(text) > 0 {
			if err := json.NewEncoder(output).Encode(driver.answer(text)); err != nil {
				log.Fatal(err)
			}
			if err := output.Flush(); err != nil {
				log.Fatal(err)
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
