package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// typePrefix makes a slug the type of a problem.
const typePrefix = "urn:deltad:problem:"

// problem is an RFC 9457 problem. Field names the argument, query parameter or
// header at fault, ID what stands in the way.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
	ID     string `json:"id,omitempty"`
}

// Problems of HTTP itself; those of moving a pipeline are package control's.
const (
	unauthorized  control.Slug = "unauthorized"
	forbiddenHost control.Slug = "host-not-allowed"
	crossOrigin   control.Slug = "cross-origin"
	notJSON       control.Slug = "not-json"
	badBody       control.Slug = "bad-body"
	badParameter  control.Slug = "bad-parameter"
	badMethod     control.Slug = "method-not-allowed"
	tooLarge      control.Slug = "body-too-large"
	unavailable   control.Slug = "unavailable"
	credentials   control.Slug = "credentials"
	denied        control.Slug = "access-denied"
	corrupt       control.Slug = "state-corrupt"
	internal      control.Slug = "internal"
)

type meaning struct {
	status int
	title  string
}

// meaningOf is the status and the title of a slug.
func meaningOf(slug control.Slug) meaning {
	switch slug {
	case control.InvalidField:
		return meaning{http.StatusUnprocessableEntity, "A value cannot be used"}
	case control.ReasonTooShort:
		return meaning{http.StatusUnprocessableEntity, "A reason is needed"}
	case control.NotAStart:
		return meaning{http.StatusUnprocessableEntity, "No partition starts then"}
	case control.InTheFuture:
		return meaning{http.StatusUnprocessableEntity, "The target lies in the future"}
	case control.WouldHold:
		return meaning{http.StatusUnprocessableEntity, "The next run would be held"}
	case control.KeyReused:
		return meaning{http.StatusUnprocessableEntity, "The idempotency key cannot be used"}
	case control.NotPaused:
		return meaning{http.StatusConflict, "The pipeline is not paused"}
	case control.NoPane:
		return meaning{http.StatusConflict, "Nothing was published yet"}
	case control.AlreadyThere:
		return meaning{http.StatusConflict, "Progress is there already"}
	case control.DigestMismatch:
		return meaning{http.StatusConflict, "The plan has changed"}
	case control.DataLoss:
		return meaning{http.StatusConflict, "Data would be left unread"}
	case control.ResetPending:
		return meaning{http.StatusConflict, "Another reset or rollback is on its way"}
	case control.ResetFailed:
		return meaning{http.StatusConflict, "The reset was given up"}
	case control.RollbackFailed:
		return meaning{http.StatusConflict, "The rollback was given up"}
	case control.NoFull:
		return meaning{http.StatusConflict, "The pipeline has no full index"}
	case control.RebuildOpen:
		return meaning{http.StatusConflict, "A rebuild is going on"}
	case control.RebuildEnded:
		return meaning{http.StatusConflict, "The rebuild has ended"}
	case control.NotPromotable:
		return meaning{http.StatusConflict, "The base cannot be promoted"}
	case control.ChecksFailed:
		return meaning{http.StatusConflict, "The gate holds the base"}
	case control.NoFormerBase:
		return meaning{http.StatusConflict, "There is no former base"}
	case control.NotThere:
		return meaning{http.StatusConflict, "It was collected"}
	case control.VersionRequired:
		return meaning{http.StatusPreconditionRequired, "If-Match is required"}
	case control.StaleVersion:
		return meaning{http.StatusPreconditionFailed, "The pipeline has changed"}
	case control.NotFound:
		return meaning{http.StatusNotFound, "There is no such thing"}
	case unauthorized:
		return meaning{http.StatusUnauthorized, "A token is needed"}
	case forbiddenHost:
		return meaning{http.StatusForbidden, "The request names a foreign host"}
	case crossOrigin:
		return meaning{http.StatusForbidden, "The request comes from a foreign page"}
	case notJSON:
		return meaning{http.StatusUnsupportedMediaType, "The body must be application/json"}
	case badBody, badParameter:
		return meaning{http.StatusBadRequest, "The request cannot be read"}
	case badMethod:
		return meaning{http.StatusMethodNotAllowed, "The method does not apply here"}
	case tooLarge:
		return meaning{http.StatusRequestEntityTooLarge, "The body is too large"}
	case unavailable:
		return meaning{http.StatusServiceUnavailable, "A store cannot be reached"}
	case credentials:
		return meaning{http.StatusServiceUnavailable, "A store cannot be asked without credentials"}
	case denied:
		return meaning{http.StatusServiceUnavailable, "A store denies access"}
	case corrupt:
		return meaning{http.StatusInternalServerError, "Something stored cannot be read"}
	}
	return meaning{http.StatusInternalServerError, "Internal error"}
}

func refusal(slug control.Slug, field, format string, args ...any) error {
	return &control.Refusal{Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// slugOf classes an error that is no refusal.
func slugOf(err error) control.Slug {
	switch {
	case errors.Is(err, watermark.ErrCorrupt), errors.Is(err, sink.ErrCorrupt), errors.Is(err, sink.ErrLostCurrent), errors.Is(err, sink.ErrFormat):
		return corrupt
	case errors.Is(err, store.ErrCredentials):
		return credentials
	case errors.Is(err, store.ErrDenied):
		return denied
	case errors.Is(err, watermark.ErrUnavailable), errors.Is(err, store.ErrUnavailable), errors.Is(err, sink.ErrUnsettled), errors.Is(err, errNotYet),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable
	}
	return internal
}

// fail answers with an error. What is no refusal is logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var slug control.Slug
	var field, id string
	var ref *control.Refusal
	if errors.As(err, &ref) {
		slug, field, id = ref.Slug, ref.Field, ref.ID
	} else {
		slug = slugOf(err)
		s.o.Log.Error("request failed", zap.String("path", r.URL.Path), zap.String("pipeline", r.PathValue("p")), zap.Error(err))
	}
	m := meaningOf(slug)
	if m.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(m.status)
	_ = json.NewEncoder(w).Encode(problem{Type: typePrefix + string(slug), Title: m.title, Status: m.status, Detail: err.Error(), Field: field, ID: id})
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
	return nil
}
