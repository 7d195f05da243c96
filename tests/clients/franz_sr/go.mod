module barnabas/franz_sr

go 1.23

require github.com/twmb/franz-go/pkg/sr v1.3.0
