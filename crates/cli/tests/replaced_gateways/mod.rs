//! Gateways behind HAProxy, of which one is killed and replaced between every two requests.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, RwLock};
use tokio::task::{JoinHandle, JoinSet};
use toolwire_testkit::HaProxy;

use crate::gateway_process::GatewayProcess;

const GATEWAYS: usize = 3;

/// Names the gateway that has sent the response.
const SERVED_BY: &str = "x-served-by";

/// The address for clients.
pub(crate) struct ReplacedGateways {
    pub(crate) url: String,
    cluster: Arc<Cluster>,
    accepting: JoinHandle<()>,
}

struct Cluster {
    proxy: HaProxy,
    gateways: Mutex<Gateways>,
    /// Held by requests that are being served: a gateway is only killed between them.
    serving: RwLock<()>,
    requests: AtomicUsize,
    killed: AtomicUsize,
}

struct Gateways {
    folder: PathBuf,
    running: Vec<Option<GatewayProcess>>,
    replacing: JoinSet<(usize, GatewayProcess)>,
    /// The gateway that has served the last request.
    last: Option<usize>,
}

fn start(folder: &Path, listen: &str) -> GatewayProcess {
    GatewayProcess::start(folder, listen).unwrap()
}

impl ReplacedGateways {
    /// Starts gateways with this configuration.
    pub(crate) async fn start(folder: PathBuf, config: &Value) -> ReplacedGateways {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = config.clone();
        config["toolwire"]["gateway"]["hosts"] = json!([address.to_string()]);
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        let running: Vec<_> = (0..GATEWAYS).map(|_| Some(start(&folder, "127.0.0.1:0"))).collect();
        let addresses: Vec<SocketAddr> = running.iter().flatten().map(|gateway| gateway.address).collect();
        // Only a request that has reached no gateway is sent to another one.
        let options = ["retries 10", "option redispatch 1", "retry-on conn-failure"];
        let proxy = HaProxy::in_front_of(&addresses, &options);
        let gateways = Gateways { folder, running, replacing: JoinSet::new(), last: None };
        let cluster = Arc::new(Cluster {
            proxy,
            gateways: Mutex::new(gateways),
            serving: RwLock::default(),
            requests: AtomicUsize::new(0),
            killed: AtomicUsize::new(0),
        });
        let url = format!("http://{address}/mcp");
        let accepting = tokio::spawn(accept(listener, cluster.clone()));
        ReplacedGateways { url, cluster, accepting }
    }

    /// Returns the number of requests, and of gateways that were killed between them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.cluster.requests), count(&self.cluster.killed))
    }
}

impl Drop for ReplacedGateways {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, cluster: Arc<Cluster>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let cluster = cluster.clone();
        connections.spawn(async move {
            // An error is the end of the connection, which the client notices too.
            let _ = cluster.serve(stream).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Cluster {
    /// Passes one request to HAProxy, and closes the connection after the response.
    async fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let (head, body) = read_message(&mut client).await?;
        // The other methods open a stream that stays open, or end a session.
        let is_post = head.starts_with("POST ");
        if is_post {
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.replace_last().await;
        }
        let serving = match is_post {
            true => Some(self.serving.read().await),
            false => None,
        };
        let mut server = TcpStream::connect(self.proxy.address()).await?;
        let lines = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
        let mut request: String = lines.flat_map(|line| [line, "\r\n"]).collect();
        request.push_str("connection: close\r\n\r\n");
        server.write_all(request.as_bytes()).await?;
        server.write_all(&body).await?;
        let (head, start) = read_head(&mut server).await?;
        let served_by = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(SERVED_BY).then(|| value.trim().parse::<usize>().ok())?
        });
        if is_post {
            self.gateways.lock().await.last = served_by;
        }
        client.write_all(format!("{head}\r\n\r\n").as_bytes()).await?;
        client.write_all(&start).await?;
        // It also ends if the client closes the connection.
        let (mut of_client, mut of_server) = (client.split(), server.split());
        let mut ignored = tokio::io::sink();
        tokio::select! {
            copied = tokio::io::copy(&mut of_server.0, &mut of_client.1) => copied.map(drop)?,
            _ = tokio::io::copy(&mut of_client.0, &mut ignored) => {}
        }
        drop(serving);
        client.shutdown().await
    }

    /// Kills the gateway that has served the last request, and starts another one at its address, unless a
    /// request is being served.
    async fn replace_last(&self) {
        let mut gateways = self.gateways.lock().await;
        let Ok(_between_requests) = self.serving.try_write() else { return };
        let Some(last) = gateways.last.take() else { return };
        while let Some(replaced) = gateways.replacing.join_next().await {
            let (number, gateway) = replaced.unwrap();
            gateways.running[number] = Some(gateway);
        }
        let Some(mut killed) = gateways.running[last].take() else { return };
        killed.kill();
        self.killed.fetch_add(1, Ordering::SeqCst);
        let (folder, listen) = (gateways.folder.clone(), killed.address.to_string());
        gateways.replacing.spawn_blocking(move || (last, start(&folder, &listen)));
    }
}

/// Reads a head without its empty line, and the beginning of the body.
async fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            bytes.truncate(end);
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, rest));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads a request with a known length.
async fn read_message(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let (head, mut body) = read_head(stream).await?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    while body.len() < length.unwrap_or_default() {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((head, body))
}
