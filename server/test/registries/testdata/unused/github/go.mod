module github.com/google/go-github/v88

go 1.26.0
