package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/quorumlock/quorumlock/redlock"
)

// billInvoice answers at once, whether or not the invoice is being billed already.
func billInvoice(locker *redlock.Locker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := locker.TryDo(r.Context(), "invoice-"+r.PathValue("id"), func(ctx context.Context, _ *redlock.Lock) error {
			return bill(ctx)
		})
		w.WriteHeader(answer(err))
	}
}

// answer returns the HTTP status for the error of a call whose function bills.
func answer(err error) int {
	if errors.Is(err, redlock.ErrNotRun) { // the lock was not taken: nothing was done
		switch {
		case errors.Is(err, redlock.ErrTaken):
			return http.StatusLocked
		case errors.Is(err, redlock.ErrInvalid): // the id cannot be part of a name
			return http.StatusNotFound
		}
		return http.StatusServiceUnavailable // log err: it names the servers
	}
	if err != nil { // the work has failed, or its lock was lost: log err, and look at the invoice
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

	// Output:
	// billed
	// 204
	// 404
	// 423
	// 503
}
