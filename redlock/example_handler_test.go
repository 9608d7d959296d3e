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
		name := "invoice-" + r.PathValue("id")
		err := locker.TryDo(r.Context(), name, func(ctx context.Context, _ *redlock.Lock) error {
			return bill(ctx)
		})
		switch notRun := errors.Is(err, redlock.ErrNotRun); {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case notRun && errors.Is(err, redlock.ErrTaken): // another request holds the lock
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this invoice is being billed, try later", http.StatusConflict)
		case notRun && errors.Is(err, redlock.ErrNoQuorum): // too few servers answer: log err, which names them
			w.Header().Set("Retry-After", "5")
			http.Error(w, "service unavailable, try later", http.StatusServiceUnavailable)
		case notRun && errors.Is(err, redlock.ErrInvalid): // the id cannot be part of a name
			http.Error(w, "no such invoice", http.StatusNotFound)
		default: // bill has failed, or the lock was lost, or it cannot be taken (ErrForeign): log err
			http.Error(w, "billing failed", http.StatusInternalServerError)
		}
	}
}

func Example_handler() {
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	handler := http.NewServeMux()
	handler.Handle("POST /invoices/{id}/bill", billInvoice(locker))
	post := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/invoices/42/bill", nil))
		fmt.Printf("%d, Retry-After %q\n", w.Code, w.Header().Get("Retry-After"))
	}

	post()
	lock, err := locker.TryLock(context.Background(), "invoice-42")
	if err != nil {
		log.Fatal(err)
	}
	post()
	if err := lock.Unlock(context.Background()); err != nil {
		log.Fatal(err)
	}
	servers[0].SetError("LOADING Redis is loading the dataset in memory")
	servers[1].SetError("LOADING Redis is loading the dataset in memory")
	post()

	// Output:
	// billed
	// 204, Retry-After ""
	// 409, Retry-After "1"
	// 503, Retry-After "5"
}
