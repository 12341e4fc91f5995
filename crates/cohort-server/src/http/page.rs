//! The page at `/`, and the one at `/docs` to try every route: files that are part of the program, so that it needs nothing from anywhere.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use super::Service;

/// Nothing but what this service sends is loaded, run or asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Address, kind and content of every file.
const FILES: [(&str, &str, &str); 14] = [
    ("/", HTML, include_str!("../page/index.html")),
    ("/page/style.css", STYLE, include_str!("../page/style.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("/page/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/page/service.js", SCRIPT, include_str!("../page/service.js")),
    ("/page/elements.js", SCRIPT, include_str!("../page/elements.js")),
    ("/page/features.js", SCRIPT, include_str!("../page/features.js")),
    ("/page/figures.js", SCRIPT, include_str!("../page/figures.js")),
    ("/page/map.js", SCRIPT, include_str!("../page/map.js")),
    ("/docs", HTML, include_str!("../page/docs.html")),
    ("/docs/docs.css", STYLE, include_str!("../page/docs.css")),
    ("/docs/docs.js", SCRIPT, include_str!("../page/docs.js")),
    ("/page/cluster.js", SCRIPT, include_str!("../page/cluster.js")),
    ("/page/views.js", SCRIPT, include_str!("../page/views.js")),
];

pub(super) fn routes() -> Router<Arc<Service>> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        let file = move || async move {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CACHE_CONTROL, "no-cache"),
                (header::CONTENT_SECURITY_POLICY, POLICY),
            ];
            (headers, content).into_response()
        };
        router.route(path, get(file))
    })
}
