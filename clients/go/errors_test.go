// Where an error says that a mistake is.

package sluice

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refuseKeys answers that the second key value of each check is wrong.
func refuseKeys(w http.ResponseWriter, _ *http.Request, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusBadRequest)
	problems := ""
	for i := range checksIn(body) {
		problems += fmt.Sprintf(`{"path":"checks[%d].key[1]","expected":"text","got":"7"},`, i)
	}
	fmt.Fprintf(w, `{"code":"invalid-request","detail":"A sentence.","errors":[%s{"path":"checks","expected":"fewer","got":"more"}]}`, problems)
}

func pathsOf(err error) []string {
	var refused *Error
	if !errors.As(err, &refused) {
		return []string{fmt.Sprint(err)}
	}
	var paths []string
	for _, problem := range refused.Errors {
		paths = append(paths, problem.Path)
	}
	return paths
}

func TestThePathsOfASingleCallBeginAtItsCheck(t *testing.T) {
	client := startGateway(t, refuseKeys).client(t, Options{Deadline: time.Minute})
	_, ofCheck := client.Check(background, "api", nil)
	_, ofPeek := client.Peek(background, "api", nil)
	_, ofAcquire := client.Acquire(background, "api", nil, time.Second)
	_, ofAll := client.CheckAll(background, CheckOf("api", nil), CheckOf("api", nil))
	for what, pair := range map[string][2]string{
		"check":    {fmt.Sprint(pathsOf(ofCheck)), "[key[1] checks]"},
		"peek":     {fmt.Sprint(pathsOf(ofPeek)), "[key[1] checks]"},
		"acquire":  {fmt.Sprint(pathsOf(ofAcquire)), "[key[1] checks]"},
		"checkAll": {fmt.Sprint(pathsOf(ofAll)), "[checks[0].key[1] checks[1].key[1] checks]"},
	} {
		if got, expected := pair[0], pair[1]; got != expected {
			t.Errorf("%s: expected %s, got %s", what, expected, got)
		}
	}
}

func TestThePathsOfACallInABatchBeginAtItsCheck(t *testing.T) {
	client := startGateway(t, refuseKeys).client(t, Options{Deadline: time.Minute})
	// The second and the eleventh have places that begin alike.
	checks := checksTogether(12)
	client.batches.inFlight++
	client.batches.run(newBatch(checks))
	for i, check := range checks {
		<-check.done
		if got := fmt.Sprint(pathsOf(check.err)); got != "[key[1]]" {
			t.Errorf("check %d: expected [key[1]], got %s", i, got)
		}
	}
}

func TestAnErrorKeepsAsManyProblemsAsAGatewaySays(t *testing.T) {
	problems := strings.Repeat("{},", 100_000) + "{}"
	problem := readProblem(http.StatusUnauthorized, []byte(`{"code":"unauthorized","errors":[`+problems+`]}`))
	if got := len(problem.Errors); got != 101 {
		t.Errorf("expected 101 problems, got %d", got)
	}
}
