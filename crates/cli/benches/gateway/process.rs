//! The gateway as a separate process, so that its CPU time and memory can be measured.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// How a gateway is started.
#[derive(Default)]
pub(crate) struct Start<'a> {
    /// The name of its folder. Gateways with the same name share their data.
    pub(crate) name: &'a str,
    /// The processors that it may use, as `taskset` expects them; by default all.
    pub(crate) processors: Option<&'a str>,
    /// Whether it has no folder for data, so that it stores everything in memory.
    pub(crate) is_without_data: bool,
}

impl Gateway {
    /// Starts the program of this build, or the one in `TOOLWIRE_BINARY`.
    pub(crate) fn start(config: &Value) -> Result<Gateway, Box<dyn Error>> {
        Gateway::start_as(config, &Start::default())
    }

    pub(crate) fn start_as(config: &Value, start: &Start<'_>) -> Result<Gateway, Box<dyn Error>> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gateway-bench").join(start.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("mcp.json"), config.to_string())?;
        let program = std::env::var_os("TOOLWIRE_BINARY")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_toolwire")), PathBuf::from);
        let mut command = match start.processors {
            None => Command::new(program),
            Some(processors) => {
                let mut command = Command::new("taskset");
                command.args(["-c", processors]).arg(program);
                command
            }
        };
        command
            .current_dir(&folder)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env_remove("TOOLWIRE_CONFIG")
            .env_remove("TOOLWIRE_KEY")
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        match start.is_without_data {
            true => command.env_remove("XDG_DATA_HOME").env_remove("HOME"),
            false => command.env("XDG_DATA_HOME", folder.join("data")),
        };
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or("no standard error")?;
        let mut address = None;
        let mut lines = BufReader::new(stderr).lines();
        for line in lines.by_ref() {
            let line = line?;
            if let Some(url) = line.strip_prefix("listening on http://") {
                address = Some(url.parse()?);
            }
            if line.starts_with("ready") {
                break;
            }
        }
        // The log is read and discarded, so that a full pipe does not block the gateway.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Gateway { child, address: address.ok_or("the gateway did not start")? })
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time of the process, without its MCP servers.
    pub(crate) fn cpu_time(&self) -> Result<Duration, Box<dyn Error>> {
        cpu_time_of(self.process())
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64, Box<dyn Error>> {
        memory_of(self.process())
    }
}

/// Returns the resident memory of a process in bytes.
pub(crate) fn memory_of(process: u32) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// Returns the CPU time of the running threads of a process.
pub(crate) fn cpu_time_of(process: u32) -> Result<Duration, Box<dyn Error>> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let statistics = fs::read_to_string(task?.path().join("schedstat"))?;
        let on_cpu = statistics.split(' ').next().ok_or("no CPU time")?;
        nanoseconds += on_cpu.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
