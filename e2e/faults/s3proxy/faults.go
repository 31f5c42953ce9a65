package s3proxy

import (
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Fault is what befalls a request. Name appears in logs and reports.
type Fault struct {
	Name string
	Do   func(*Call)
}

// Refused answers without asking the server.
func Refused(status int, code string) Fault {
	return Fault{code, func(c *Call) { c.Refuse(status, code, "injected") }}
}

// SlowDown is the 503 of an overloaded server.
func SlowDown() Fault { return Refused(http.StatusServiceUnavailable, "SlowDown") }

// Internal is a 500.
func Internal() Fault { return Refused(http.StatusInternalServerError, "InternalError") }

// Conflict is the 409 of conditional puts that race.
func Conflict() Fault { return Refused(http.StatusConflict, "ConditionalRequestConflict") }

// Denied is the 403 of missing permissions.
func Denied() Fault { return Refused(http.StatusForbidden, "AccessDenied") }

// ClientSkewed is the 403 for a client whose clock is wrong, as the server
// sees it.
func ClientSkewed() Fault { return Refused(http.StatusForbidden, "RequestTimeTooSkewed") }

// AppliedInternal has the server do it, and then says that it failed.
func AppliedInternal() Fault {
	return Fault{"500 after it was applied", func(c *Call) {
		c.Forward()
		c.Refuse(http.StatusInternalServerError, "InternalError", "injected")
	}}
}

// ResetBefore cuts the connection before the server sees the request.
func ResetBefore() Fault { return Fault{"reset before", (*Call).Cut} }

// ResetAfter cuts it when the server has done it: the reply is lost.
func ResetAfter() Fault {
	return Fault{"reset after", func(c *Call) {
		c.Forward()
		c.Cut()
	}}
}

// Truncated announces the whole body, sends half of it and cuts.
func Truncated() Fault {
	return Fault{"truncated", func(c *Call) {
		a := c.Forward()
		if len(a.Body) == 0 {
			c.Cut()
		}
		c.send(a, len(a.Body), len(a.Body)/2)
		c.Cut()
	}}
}

// Corrupted flips a bit in the middle of the body.
func Corrupted() Fault {
	return Fault{"corrupted", func(c *Call) {
		a := c.Forward()
		if n := len(a.Body); n > 0 {
			a.Body[n/2] ^= 1
		}
		c.Reply(a)
	}}
}

// CorruptedUpload flips a bit in the middle of what is sent up.
func CorruptedUpload() Fault {
	return Fault{"corrupted upload", func(c *Call) {
		if n := len(c.Body); n > 0 {
			c.Body[n/2] ^= 1
		}
		c.Reply(c.Forward())
	}}
}

// HTML answers with a page and a good status, as portals do.
func HTML() Fault {
	return Fault{"HTML page", func(c *Call) {
		c.Reply(Answer{http.StatusOK, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte("<!DOCTYPE html><html><body>Please sign in</body></html>")})
	}}
}

// rewritten changes the text of a good answer.
func rewritten(name string, change func(c *Call, page string) string) Fault {
	return Fault{name, func(c *Call) {
		a := c.Forward()
		if a.Status == http.StatusOK {
			a.Body = []byte(change(c, string(a.Body)))
		}
		c.Reply(a)
	}}
}

var (
	tokens    = regexp.MustCompile(`<NextContinuationToken>[^<]*</NextContinuationToken>`)
	truncated = regexp.MustCompile(`<IsTruncated>[^<]*</IsTruncated>`)
	contents  = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)
	prefixes  = regexp.MustCompile(`(?s)<CommonPrefixes>.*?</CommonPrefixes>`)
	entryKey  = regexp.MustCompile(`<(?:Key|Prefix)>([^<]*)</(?:Key|Prefix)>`)
)

// NoToken says that a listing goes on, and not how.
func NoToken() Fault {
	return rewritten("no token", func(_ *Call, page string) string {
		page = tokens.ReplaceAllString(page, "")
		return truncated.ReplaceAllString(page, "<IsTruncated>true</IsTruncated>")
	})
}

// SameToken gives the same page and the same token for ever.
func SameToken() Fault {
	return rewritten("same token", func(_ *Call, page string) string {
		page = tokens.ReplaceAllString(page, "")
		return truncated.ReplaceAllString(page, "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>")
	})
}

// Missing leaves the entries out of a listing whose key or prefix hides says.
func Missing(hides func(entry string) bool) Fault {
	drop := func(entry string) string {
		if m := entryKey.FindStringSubmatch(entry); m != nil && hides(strings.ReplaceAll(m[1], "%2F", "/")) {
			return ""
		}
		return entry
	}
	return rewritten("missing keys", func(_ *Call, page string) string {
		return prefixes.ReplaceAllStringFunc(contents.ReplaceAllStringFunc(page, drop), drop)
	})
}

// Stalled has the server do it and says nothing for a time, then cuts.
func Stalled(d time.Duration) Fault {
	return Fault{"stalled", func(c *Call) {
		c.Forward()
		c.Wait(d)
		c.Cut()
	}}
}

// StalledBody stops in the middle of the body for a time, then cuts.
func StalledBody(d time.Duration) Fault {
	return Fault{"stalled body", func(c *Call) {
		a := c.Forward()
		if len(a.Body) > 1 {
			c.send(a, len(a.Body), len(a.Body)/2)
		}
		c.Wait(d)
		c.Cut()
	}}
}

// Late lets the request arrive when its client may have gone long ago.
func Late(d time.Duration) Fault {
	return Fault{"arrives late", func(c *Call) {
		select {
		case <-time.After(d):
		case <-c.p.ctx.Done():
		}
		c.Forward()
		c.Cut()
	}}
}

// Delayed waits before it passes the request on.
func Delayed(d time.Duration) Fault {
	return Fault{"delayed", func(c *Call) {
		if c.Wait(d) {
			c.Reply(c.Forward())
		}
	}}
}

// NoTrailers is a server that does not know checksum trailers.
func NoTrailers() Fault {
	return Fault{"trailers refused", func(c *Call) {
		if strings.Contains(c.Header.Get("Content-Encoding"), "aws-chunked") || c.Header.Get("X-Amz-Trailer") != "" {
			c.Refuse(http.StatusNotImplemented, "NotImplemented", "Transfer encoding aws-chunked with a trailer is not implemented.")
			return
		}
		c.Reply(c.Forward())
	}}
}

// ServerSkewed moves every time that the server tells.
func ServerSkewed(by time.Duration) Fault {
	modified := regexp.MustCompile(`<LastModified>([^<]*)</LastModified>`)
	return Fault{"skewed dates", func(c *Call) {
		a := c.Forward()
		for _, h := range []string{"Date", "Last-Modified"} {
			if t, err := http.ParseTime(a.Header.Get(h)); err == nil {
				a.Header.Set(h, t.Add(by).UTC().Format(http.TimeFormat))
			}
		}
		if c.Op == List {
			a.Body = modified.ReplaceAllFunc(a.Body, func(m []byte) []byte {
				t, err := time.Parse(time.RFC3339, string(modified.FindSubmatch(m)[1]))
				if err != nil {
					return m
				}
				return []byte("<LastModified>" + t.Add(by).UTC().Format("2006-01-02T15:04:05.000Z") + "</LastModified>")
			})
		}
		c.Reply(a)
	}}
}
