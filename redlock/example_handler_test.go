package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// billInvoice answers at once, whether or not the invoice is being billed already.
func billInvoice(locker *redlock.Locker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		err = locker.TryDo(r.Context(), fmt.Sprint("invoice-", id), func(ctx context.Context, _ *redlock.Lock) error {
			return bill(ctx)
		})
		w.WriteHeader(answer(err))
	}
}

// answer returns the HTTP status for the error of a call whose function bills.
func answer(err error) int {
	if errors.Is(err, redlock.ErrNotRun) { // the lock was not taken: nothing was done
		if errors.Is(err, redlock.ErrTaken) {
			return http.StatusLocked
		}
		log.Print(err) // names the servers that fail, or a wrong option
		return http.StatusServiceUnavailable
	}
	if err != nil { // the work has failed, or its lock was lost: look at the invoice
		log.Print(err)
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

func Example_handler() {
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	handler := http.NewServeMux()
	handler.Handle("POST /invoices/{id}/bill", billInvoice(locker))
	post := func(id string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/invoices/"+id+"/bill", nil))
		fmt.Println(w.Code)
	}

	post("42")
	post("%0a")
	lock, err := locker.TryLock(context.Background(), "invoice-42")
	if err != nil {
		log.Fatal(err)
	}
	post("42")
	if err := lock.Unlock(context.Background()); err != nil {
		log.Fatal(err)
	}
	servers[0].SetError("LOADING Redis is loading the dataset in memory")
	servers[1].SetError("LOADING Redis is loading the dataset in memory")
	post("42")
	wrong := locker.TryDo(context.Background(), "invoice-42", func(context.Context, *redlock.Lock) error { return nil },
		redlock.MaxWait(time.Second))
	fmt.Println(answer(wrong), errors.Is(wrong, redlock.ErrInvalid))

	// Output:
	// billed
	// 204
	// 404
	// 423
	// 503
	// 503 true
}
